package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

const digestKey = `  "sha256": "`

// Seal returns v, a struct, as JSON whose last member is the sha256 of every byte
// before that member's line, so that no byte can change unnoticed.
func Seal(v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	body = append(bytes.TrimSuffix(body, []byte("\n}")), ",\n"...)
	return append(body, digestLine(body)...), nil
}

func digestLine(body []byte) []byte {
	sum := sha256.Sum256(body)
	return fmt.Appendf(nil, "%s%s\"\n}\n", digestKey, hex.EncodeToString(sum[:]))
}

// Unseal is the inverse of Seal. It refuses what has a changed byte. Fields that v
// does not know are ignored.
func Unseal(data []byte, v any) error {
	at := bytes.LastIndex(data, []byte(digestKey))
	if at < 0 {
		return errors.New("no digest")
	}
	if !bytes.Equal(data[at:], digestLine(data[:at])) {
		return errors.New("its digest does not match its content")
	}
	return json.Unmarshal(data, v)
}
