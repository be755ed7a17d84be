package storetest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

var errPlanned = errors.New("planned")

func TestFaultyWrites(t *testing.T) {
	tests := map[string]struct {
		fault   storetest.Fault
		err     error
		happens bool
		left    string // of the source
	}{
		"goes well":       {storetest.Fault{}, nil, true, ""},
		"fails":           {storetest.Fault{Err: errPlanned}, errPlanned, false, "content"},
		"fails half way":  {storetest.Fault{Err: errPlanned, Cut: 3}, errPlanned, false, "tent"},
		"answer is lost":  {storetest.Fault{Err: errPlanned, Lost: true}, errPlanned, true, ""},
		"fails at length": {storetest.Fault{Err: errPlanned, Cut: 99}, errPlanned, false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := mem.New()
			script := storetest.Script{storetest.Create: {{}, test.fault}, storetest.Swap: {test.fault}}
			f := storetest.NewFaulty(m, script.Plan)
			if _, err := f.Create(t.Context(), "first", strings.NewReader("")); err != nil {
				t.Fatal(err)
			}
			src := strings.NewReader("content")
			info, createErr := f.Create(t.Context(), "created", src)
			version, swapErr := f.Swap(t.Context(), "swapped", "", []byte("x"))
			if !errors.Is(createErr, test.err) || !errors.Is(swapErr, test.err) {
				t.Errorf("errors are %v, %v", createErr, swapErr)
			}
			if test.err != nil && (info.Version != "" || version != "") {
				t.Errorf("answers are %+v, %q", info, version)
			}
			for _, name := range []string{"created", "swapped"} {
				if _, _, err := m.Read(t.Context(), name); (err == nil) != test.happens {
					t.Errorf("reading %s gives %v", name, err)
				}
			}
			if left, _ := io.ReadAll(src); string(left) != test.left {
				t.Errorf("of the source %q is left", left)
			}
		})
	}
}

func TestFaultyContent(t *testing.T) {
	tests := map[string]struct {
		fault storetest.Fault
		want  string
		err   error
	}{
		"whole":            {storetest.Fault{}, "content", nil},
		"truncated":        {storetest.Fault{Cut: 3}, "con", io.ErrUnexpectedEOF},
		"broken":           {storetest.Fault{Cut: 3, Err: errPlanned}, "con", errPlanned},
		"silently cut off": {storetest.Fault{Cut: 3, Err: io.EOF}, "con", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := storetest.NewFaulty(mem.New(), storetest.Script{storetest.Open: {test.fault}}.Plan)
			if _, err := f.Create(t.Context(), "a", strings.NewReader("content")); err != nil {
				t.Fatal(err)
			}
			body, info, err := f.Open(t.Context(), "a")
			if err != nil || info.Size != 7 {
				t.Fatalf("open answers %+v, %v", info, err)
			}
			defer body.Close()
			if got, err := io.ReadAll(body); string(got) != test.want || !errors.Is(err, test.err) {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

func TestFaultyDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := storetest.Fault{Delay: time.Minute}
		f := storetest.NewFaulty(mem.New(), storetest.Script{storetest.Swap: {slow, slow}}.Plan)
		start := time.Now()
		v, err := f.Swap(t.Context(), "a", "", nil)
		if took := time.Since(start); err != nil || took != time.Minute {
			t.Errorf("it took %s, %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Swap(ctx, "a", v, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		if _, now, _ := f.Read(t.Context(), "a"); now != v || f.Calls(storetest.Swap) != 2 {
			t.Errorf("version is %q after %d swaps", now, f.Calls(storetest.Swap))
		}
	})
}
