package store_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/etcd-ferry/etcd-ferry/store"
)

func TestExact(t *testing.T) {
	errBody := errors.New("body failed on purpose")
	tests := map[string]struct {
		body io.Reader
		want string // of the content; the size is 5
		err  error
	}{
		"right":                {strings.NewReader("12345"), "12345", nil},
		"byte by byte":         {iotest.OneByteReader(strings.NewReader("12345")), "12345", nil},
		"data with EOF":        {iotest.DataErrReader(strings.NewReader("12345")), "12345", nil},
		"short":                {strings.NewReader("1234"), "1234", io.ErrUnexpectedEOF},
		"short, data with EOF": {iotest.DataErrReader(strings.NewReader("1234")), "1234", io.ErrUnexpectedEOF},
		"broken":               {io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(errBody)), "12345", errBody},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := store.Exact(t.Context(), io.NopCloser(test.body), store.Info{Name: "x", Size: 5})
			got, err := io.ReadAll(r)
			if string(got) != test.want || !errors.Is(err, test.err) {
				t.Errorf("read %q, %v, want %q, %v", got, err, test.want, test.err)
			}
		})
	}
	t.Run("long", func(t *testing.T) {
		r := store.Exact(t.Context(), io.NopCloser(strings.NewReader("123456")), store.Info{Name: "x", Size: 5})
		if got, err := io.ReadAll(r); err == nil {
			t.Errorf("read %q without an error", got)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := store.Exact(ctx, io.NopCloser(strings.NewReader("12345")), store.Info{Name: "x", Size: 5})
		cancel()
		if got, err := io.ReadAll(r); len(got) > 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("read %q, %v after cancelling", got, err)
		}
	})
}
