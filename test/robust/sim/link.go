package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// weather is how the way from a site to a container is.
type weather string

const (
	fine      weather = ""
	cutOff    weather = "cut off"
	refused   weather = "refused"
	rough     weather = "losing, repeating and delaying messages"
	slow      weather = "slow"
	throttled weather = "throttled"
	forbidden weather = "answering 403"
	fading    weather = "slow, then cut off"
)

var weathers = []weather{cutOff, cutOff, cutOff, refused, rough, rough, rough, slow, throttled, forbidden, forbidden, fading, fading}

// link is how one process reaches one container.
type link struct {
	*life
	to *container
}

// fate is what becomes of one call.
type fate struct {
	there, back time.Duration
	err         error         // the answer, and nothing happens
	lost        bool          // the request is
	unanswered  bool          // the answer is
	again       time.Duration // later the request arrives a second time; 0: it does not
	patience    time.Duration // until the client gives up, if nothing comes
}

// fate draws what becomes of the next call. The same numbers are drawn whatever
// the weather is.
func (k *link) fate() fate {
	k.mu.Lock()
	is := k.weather[k.to.site]
	if is == fading {
		if is = slow; time.Since(k.since[k.to.site]) > 20*second {
			is = cutOff
		}
	}
	k.mu.Unlock()
	d := k.dice
	far := time.Duration(k.plan.far * float64(second/25))
	f := fate{there: d.between(second/500, far), back: d.between(second/500, far)}
	luck, extent := d.share(), d.share()
	f.patience = 10*second + time.Duration(extent*float64(50*second))
	read := k.plan.timing.Read
	switch is {
	case cutOff:
		f.lost = true
	case refused:
		f.err = errCut
	case rough:
		f.suffer(luck, extent)
	case slow:
		f.back += time.Duration((0.3 + 0.8*extent) * float64(read))
	case throttled:
		if luck < 0.6 {
			f.err = store.Later(errThrottled, time.Duration(extent*float64(5*second)))
		}
	case forbidden:
		f.err = fmt.Errorf("%w: %w", errDenied, fs.ErrPermission)
	default:
		f.suffer(luck*k.plan.luck, extent)
	}
	return f
}

var errThrottled = fmt.Errorf("503 slow down: %w", errCut)

// suffer makes something go wrong; luck below 0.42 is none.
func (f *fate) suffer(luck, extent float64) {
	switch {
	case luck < 0.12:
		f.unanswered = true
	case luck < 0.20:
		f.lost = true
	case luck < 0.26: // it arrives when nobody waits for it any more
		f.there, f.unanswered = 5*second+time.Duration(extent*extent*float64(400*second)), true
	case luck < 0.32:
		f.again = second/10 + time.Duration(extent*extent*float64(300*second))
	case luck < 0.42:
		f.back += time.Duration(extent * float64(8*second))
	}
}

// send is one call: the request is on its way, arrives, is answered, whatever
// becomes of the process meanwhile. Only what repeats may arrive twice.
func send[T any](ctx context.Context, k *link, repeats bool, effect func() (T, error)) (none T, err error) {
	if err := k.await(); err != nil {
		return none, err
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type answer struct {
		t   T
		err error
	}
	f := k.fate()
	answers := make(chan answer, 1)
	var patience <-chan time.Time
	if f.lost || f.unanswered {
		t := time.NewTimer(f.patience)
		defer t.Stop()
		patience = t.C
	}
	if !f.lost {
		k.tasks.Go(func() {
			k.sleep(f.there)
			a := answer{err: f.err}
			if f.err == nil {
				a.t, a.err = effect()
			}
			if f.again > 0 && repeats {
				k.repeat(f.again, func() { _, _ = effect() })
			}
			k.sleep(f.back)
			if !f.unanswered {
				answers <- a
			}
		})
	}
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	case <-patience:
		a.err = errCut
	case <-k.died:
	}
	if err := k.await(); err != nil {
		return none, err
	}
	return a.t, a.err
}

// repeat lets a request arrive a second time.
func (k *link) repeat(later time.Duration, effect func()) {
	k.tasks.Go(func() {
		k.sleep(later)
		effect()
	})
}

func (k *link) String() string { return k.to.String() }

// List implements store.Reader.
func (k *link) List(ctx context.Context, prefix string) ([]store.Info, error) {
	return send(ctx, k, false, func() ([]store.Info, error) { return k.to.List(ctx, prefix) })
}

// Open implements store.Reader.
func (k *link) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	var info store.Info
	body, err := send(ctx, k, false, func() (body io.ReadCloser, err error) {
		body, info, err = k.to.Open(ctx, name)
		return body, err
	})
	if err != nil {
		return nil, store.Info{}, err
	}
	return body, info, nil
}

// Create implements store.Writer.
func (k *link) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return store.Info{}, fmt.Errorf("create %s: %w", name, err)
	}
	return send(ctx, k, true, func() (store.Info, error) { return k.to.create(name, data) })
}

// Remove implements store.Writer.
func (k *link) Remove(ctx context.Context, name string) error {
	_, err := send(ctx, k, true, func() (struct{}, error) { return struct{}{}, k.to.remove(k.what, name) })
	return err
}

// Read implements store.Swapper.
func (k *link) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	k.mu.Lock()
	asked := k.notices()
	k.mu.Unlock()
	until, bounded := ctx.Deadline()
	renews := bounded && time.Until(until) <= k.plan.timing.Read // what changes the object takes longer
	var v store.Version
	data, err := send(ctx, k, false, func() (data []byte, err error) {
		data, v, err = k.to.Read(k.world.ctx, name)
		return data, err
	})
	if renews {
		k.readBy(asked, name, err)
	}
	if err != nil {
		return nil, "", err
	}
	return k.doctored(name, data), v, nil
}

// Swap implements store.Swapper.
func (k *link) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	return send(ctx, k, true, func() (store.Version, error) { return k.to.swap(name, old, data) })
}

func (c *container) create(name string, data []byte) (store.Info, error) {
	c.order.Lock()
	defer c.order.Unlock()
	info, err := c.Create(c.site.ctx, name, bytes.NewReader(data))
	if err == nil {
		c.site.observe(c, name, data)
	}
	return info, err
}

func (c *container) swap(name string, old store.Version, data []byte) (store.Version, error) {
	c.order.Lock()
	defer c.order.Unlock()
	if c.site.set.Defect == IgnoresConditions && !strings.HasPrefix(name, "probe-") {
		_, old, _ = c.Read(c.site.ctx, name)
	}
	v, err := c.Swap(c.site.ctx, name, old, data)
	if err == nil {
		c.site.observe(c, name, data)
	}
	return v, err
}

func (c *container) remove(who, name string) error {
	c.site.removes(c, who, name)
	return c.Remove(c.site.ctx, name)
}
