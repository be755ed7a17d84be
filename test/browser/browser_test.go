package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/etcd-ferry/etcd-ferry/server/page"
)

// patience is how long anything may take that a browser does.
const patience = time.Minute

// newTab is one of the browser that all tests share.
var newTab func() (context.Context, context.CancelFunc)

func TestMain(m *testing.M) { os.Exit(browse(m)) }

func browse(m *testing.M) int {
	program := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "chrome", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		fmt.Fprintln(os.Stderr, "there is no Chromium to look at the page with: run make browser")
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, done := chromedp.NewExecAllocator(context.Background(), options...)
	defer done()
	started, end := chromedp.NewContext(allocator)
	defer end()
	newTab = func() (context.Context, context.CancelFunc) { return chromedp.NewContext(started) }
	if err := chromedp.Do(started); err != nil {
		fmt.Fprintln(os.Stderr, "Chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// view is how somebody looks at a page.
type view struct {
	width  int64
	scheme string // light or dark
	noJS   bool
}

var (
	desk  = view{width: 1280, scheme: "light"}
	night = view{width: 1280, scheme: "dark"}
	phone = view{width: 360, scheme: "dark"}
)

func (v view) String() string { return fmt.Sprintf("%s-%d", v.scheme, v.width) }

// tab is a page that is looked at. What it complains of fails the test at its end.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func open(t *testing.T, v view, url string) *tab {
	t.Helper()
	ctx, closeTab := newTab()
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		closeTab()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaints {
			t.Errorf("the browser says: %s", c)
		}
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	b.do(
		call(cdplog.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}),
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: v.width, Height: 900, DeviceScaleFactor: 1, Mobile: v.width < 600,
		}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
		}),
		call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.noJS}),
		chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("main")),
	)
	return b
}

// call is a command of the browser whose answer says nothing.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// hear notes errors of the page's script, its console, and of loading.
func (b *tab) hear(event any) {
	var complaint string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprint("console ", e.Type)
	case *cdplog.EventEntryAdded:
		complaint = fmt.Sprint(e.Entry.Source, " ", e.Entry.Text, " ", e.Entry.URL)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, complaint)
}

// heard returns the complaints so far, which fail nothing any more.
func (b *tab) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.complaints
	b.complaints = nil
	return c
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// get returns what an action does.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// until waits for an expression to be true.
func (b *tab) until(expression string) {
	b.t.Helper()
	if !get(b, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(patience))) {
		b.t.Fatalf("never %s", expression)
	}
}

// shoot keeps a picture of the whole page.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), get(b, chromedp.FullScreenshot(100)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// shown is a server of the page, whose state can be changed.
type shown struct {
	URL string

	mu    sync.Mutex
	state page.State
	down  bool
}

func show(t *testing.T, s page.State) *shown {
	t.Helper()
	p, web := page.New(), &shown{state: s}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		web.mu.Lock()
		defer web.mu.Unlock()
		if web.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err := p.Answer(w, web.state); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	web.URL = server.URL
	return web
}

func (w *shown) change(f func(*page.State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.state)
}

func (w *shown) fall(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}
