package browser

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// contrasts returns what is hard to read: text that has less than 4.5 against what is
// behind it, and shapes that carry a meaning with less than 3 (WCAG 2.2, 1.4.3 and
// 1.4.11).
const contrasts = `(() => {
  const parse = (c) => {
    const m = c.match(/rgba?\(([^)]+)\)/);
    if (!m) throw new Error("colour " + c);
    const [r, g, b, a] = m[1].split(/[ ,\/]+/).map(Number);
    return [r, g, b, a === undefined ? 1 : a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const bad = [];
  let texts = 0, shapes = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest("script, style") || !e.checkVisibility()) continue;
    texts++;
    const below = behind(e), c = contrast(over(parse(getComputedStyle(e).color), below), below);
    if (c < 4.5) bad.push(c.toFixed(2) + " text " + e.tagName + "." + e.className + " " + walk.currentNode.data.trim());
  }
  for (const e of document.querySelectorAll("svg .full, svg .delta, svg path, svg .part, .key")) {
    shapes++;
    const s = getComputedStyle(e), below = behind(e.closest("svg") ? e.closest("svg").parentElement : e.parentElement);
    const c = contrast(parse(e.closest("svg") ? s.fill : s.backgroundColor), below);
    if (c < 3) bad.push(c.toFixed(2) + " shape " + e.tagName + "." + (e.className.baseVal ?? e.className));
  }
  return { bad: [...new Set(bad)], texts, shapes };
})()`

// wide are elements that are beyond the right edge, if the page can be moved
// sideways or something in it is cut off.
const wide = `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest(".skip"))
  .map((e) => e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 40))
  .concat(document.documentElement.scrollWidth > innerWidth ? ["the page: " + document.documentElement.scrollWidth] : [])`

// TestLook: each state, by day, at night and on a phone, can be read, fits, and lets
// the browser complain of nothing.
func TestLook(t *testing.T) {
	for name, state := range states() {
		views := []view{desk, phone}
		if name == "serving" {
			views = append(views, night) // a phone is in the dark, too
		}
		for _, v := range views {
			t.Run(name+"-"+v.String(), func(t *testing.T) {
				b := open(t, v, show(t, state).URL)
				eval[int](b, `document.querySelectorAll("details").forEach((d) => d.open = true), 0`)
				b.shoot(name + "-" + v.String())
				found := eval[struct {
					Bad           []string
					Texts, Shapes int
				}](b, contrasts)
				if len(found.Bad) > 0 || found.Texts < 10 || state.Lease != nil && found.Shapes < 3 {
					t.Errorf("%d texts and %d shapes; hard to read: %s", found.Texts, found.Shapes, strings.Join(found.Bad, "\n"))
				}
				if cut := eval[[]string](b, wide); len(cut) > 0 {
					t.Errorf("too wide: %s", strings.Join(cut, "\n"))
				}
				if ground := eval[string](b, `getComputedStyle(document.body).backgroundColor`); (ground < "rgb(2") != (v.scheme == "dark") {
					t.Errorf("the ground is %s", ground)
				}
				if eval[bool](b, `"owned" in window`) {
					t.Error("what others have written is run")
				}
			})
		}
	}
}

// TestKeyboard: Tab comes to everything that can be used, in the order of the page,
// shows where it is, and Enter does it.
func TestKeyboard(t *testing.T) {
	b := open(t, desk, show(t, serving()).URL)
	const usable = `[...document.querySelectorAll("a[href], button, summary, input, select, textarea, [tabindex='0']")].filter((e) => e.checkVisibility()).map(`
	const name = `((e) => e.tagName + " " + e.textContent.trim())`
	want := eval[[]string](b, usable+name+`)`)
	var got []string
	for range want {
		b.do(chromedp.KeyEvent(kb.Tab))
		got = append(got, eval[string](b, name+`(document.activeElement)`))
		if !eval[bool](b, `(() => { const s = getComputedStyle(document.activeElement), r = document.activeElement.getBoundingClientRect();
			return document.activeElement.matches(":focus-visible") && s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.left >= 0 && r.width > 0 })()`) {
			t.Errorf("the focus cannot be seen on %q", got[len(got)-1])
		}
	}
	if !slices.Equal(got, want) || len(want) < 8 {
		t.Errorf("Tab comes to %q, want %q", got, want)
	}
	small := eval[[]string](b, usage(`r.width < 24 || r.height < 24`))
	if len(small) > 0 {
		t.Errorf("too small to be hit: %q", small)
	}
	b.do(chromedp.Focus(chromedp.CSS("summary")), chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("details").open`)
	b.do(chromedp.Focus(chromedp.CSS("#pause")), chromedp.KeyEvent(" "))
	b.until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	b.do(chromedp.Focus(chromedp.CSS(".skip")), chromedp.KeyEvent(kb.Enter))
	b.until(`document.activeElement.id === "state"`)
}

// usage returns what can be used, and is no link in a text, for which a condition on
// its box holds (WCAG 2.2, 2.5.8).
func usage(condition string) string {
	return `[...document.querySelectorAll("button, summary, nav a, .refresh a")].filter((e) => { const r = e.getBoundingClientRect(); return ` +
		condition + ` }).map((e) => e.textContent)`
}

// TestScreenReader: the page has its landmarks and headings, and everything in it a
// name.
func TestScreenReader(t *testing.T) {
	for name, state := range states() {
		t.Run(name, func(t *testing.T) {
			b := open(t, desk, show(t, state).URL)
			nodes := get(b, func(ctx context.Context, t *chromedp.Target) ([]*accessibility.Node, error) {
				tree, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
				return tree.Nodes, err
			})
			count := map[string]int{}
			level := 0
			for _, n := range nodes {
				if n.Ignored {
					continue
				}
				role, label := text(n.Role), text(n.Name)
				count[role]++
				switch role {
				case "link", "button", "image", "region", "navigation", "heading", "columnheader", "DisclosureTriangle", "RootWebArea":
					if strings.TrimSpace(label) == "" {
						t.Errorf("a %s has no name", role)
					}
				}
				if role == "heading" {
					next := headingLevel(n)
					if next > level+1 || next == 0 {
						t.Errorf("heading %q is of level %d after one of %d", label, next, level)
					}
					level = next
				}
			}
			for _, landmark := range []string{"main", "banner", "contentinfo", "navigation"} {
				if count[landmark] != 1 {
					t.Errorf("%d times %s", count[landmark], landmark)
				}
			}
			if eval[int](b, `document.querySelectorAll("h1").length`) != 1 || eval[string](b, `document.documentElement.lang`) != "en" {
				t.Error("one h1 and a language are wanted")
			}
			if state.Backup != nil && state.Backup.Chart != nil {
				if count["table"] < 1 || count["columnheader"] < 4 {
					t.Errorf("tables are none: %v", count)
				}
			}
			if ids := eval[[]string](b, `[...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`); len(ids) > 0 {
				t.Errorf("ids are there twice: %q", ids)
			}
		})
	}
}

func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

func headingLevel(n *accessibility.Node) int {
	for _, p := range n.Properties {
		if p.Name == accessibility.PropertyNameLevel {
			return int(text(p.Value)[0] - '0')
		}
	}
	return 0
}

// TestWithoutJavaScript: everything is there but what would do nothing.
func TestWithoutJavaScript(t *testing.T) {
	web := show(t, handingOver())
	off := desk
	off.noJS = true
	b := open(t, off, web.URL)
	b.shoot("without-javascript")
	body := get(b, chromedp.Text(chromedp.CSS("body")))
	for _, want := range []string{
		"Being handed over", "Right to serve", "Snapshotting", "Hand-over in progress", "waits for the database to be read and stored",
		"What can be restored", "38\u202f000\u202f118", "Newest snapshots", "Refresh", "Last verification",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if pause := get(b, chromedp.Nodes(chromedp.CSSAll("#pause:not([hidden])"), chromedp.AtLeast(0))); len(pause) > 0 {
		t.Error("there is a button that does nothing")
	}
	web.change(func(s *statePage) { s.Verdict.Title = "It goes on" })
	b.do(chromedp.Click(chromedp.CSS(".refresh a")))
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // a browser has no virtual time
		if says := get(b, chromedp.Text(chromedp.CSS("#verdict"))); says == "It goes on" {
			break
		} else if time.Since(began) > patience {
			t.Fatalf("after Refresh it says %q", says)
		}
	}
}
