package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/etcd-ferry/etcd-ferry/server/page"
)

type statePage = page.State

// soon is how often the page asks in these tests.
const soon = 100 * time.Millisecond

// TestRefresh: what changes is shown without a reload, what was opened and what has
// the focus stay, a pause is one, and an answer that does not come is told.
func TestRefresh(t *testing.T) {
	s := handingOver()
	s.Refresh = soon
	web := show(t, s)
	b := open(t, desk, web.URL)
	eval[bool](b, `window.loaded = "once", document.querySelector("details").open = true`)
	b.do(chromedp.Focus(chromedp.CSS("summary")))
	say := func(title string) {
		web.change(func(s *page.State) { s.Verdict.Title, s.Now = title, s.Now.Add(time.Minute) })
	}
	says := func(title string) string { return `document.getElementById("verdict").textContent === "` + title + `"` }
	say("Snapshot stored")
	b.until(says("Snapshot stored"))
	b.until(`document.title.startsWith("Snapshot stored")`)
	b.until(`document.getElementById("asof").dateTime === "2026-11-21T03:08:42Z"`)
	if !eval[bool](b, `window.loaded === "once" && document.querySelector("details").open && document.activeElement.tagName === "SUMMARY"`) {
		t.Error("the page was loaded again, or what was opened or had the focus has it no more")
	}

	web.fall(true)
	b.until(`document.getElementById("fresh").textContent.startsWith("No answer (503)")`)
	if !eval[bool](b, says("Snapshot stored")) {
		t.Error("what was known is gone")
	}
	web.fall(false)
	b.until(`document.getElementById("fresh").textContent.startsWith("As of")`)
	for _, c := range b.heard() {
		if !strings.Contains(c, "503") {
			t.Errorf("the browser says: %s", c)
		}
	}

	b.do(chromedp.Click(chromedp.CSS("#pause")))
	say("Behind the pause")
	time.Sleep(10 * soon) //nolint:forbidigo // a browser has no virtual time
	if !eval[bool](b, says("Snapshot stored")) {
		t.Error("a pause is none")
	}
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.until(says("Behind the pause"))
}

// TestNothingElseRuns: a script that gets into the page is not run, nor a style
// applied, nor anything loaded.
func TestNothingElseRuns(t *testing.T) {
	b := open(t, desk, show(t, serving()).URL)
	eval[int](b, `
		window.refused = [];
		document.addEventListener("securitypolicyviolation", (e) => refused.push(e.effectiveDirective));
		const s = document.createElement("script");
		s.textContent = "window.owned = 1";
		document.body.append(s);
		document.querySelector("h1").insertAdjacentHTML("beforeend",
			"<b id=evil onclick='window.owned=1' style='position:fixed'>x</b><img src=/snapshots><iframe src='/livez'></iframe>");
		evil.click();
		fetch("http://127.0.0.1:1/").catch(() => {});
		0
	`)
	b.until(`["script-src-elem", "script-src-attr", "style-src-attr", "img-src", "frame-src", "connect-src"].every((d) => refused.includes(d))`)
	if eval[bool](b, `"owned" in window || getComputedStyle(evil).position === "fixed"`) {
		t.Error("it was run, or has its style")
	}
	if heard := b.heard(); len(heard) < 4 {
		t.Errorf("the browser only says %q", heard)
	}
}
