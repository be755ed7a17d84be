package delta_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

// The example in docs/format.md is a true one.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, dump, _ := strings.Cut(string(page), "```hex\n")
	dump, _, _ = strings.Cut(dump, "```")
	var documented []byte
	for line := range strings.Lines(dump) {
		for word := range strings.FieldsSeq(line) {
			b, err := hex.DecodeString(word)
			if err != nil || len(b) != 1 { // the comment begins
				break
			}
			documented = append(documented, b[0])
		}
	}
	set := put("a", "1", 41)
	set.Kv.Lease = 5
	if want := encode(t, 41, delta.Lease{ID: 5, TTL: 60}, set, remove("b", 42)); !bytes.Equal(documented, want) {
		t.Errorf("documented\n%x, want\n%x", documented, want)
	}
}
