package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/store/file"
)

const (
	// demoLook is the time between two looks at what is waited for.
	demoLook = 10 * time.Millisecond
	// demoBackOff is the time between two starts of etcd's container. A kubelet
	// begins with 10 s.
	demoBackOff = 200 * time.Millisecond
	// demoAnswer bounds one question to a server.
	demoAnswer = 5 * time.Second
	// demoProbe bounds one question whether an etcd serves.
	demoProbe = time.Second
)

// Short times make a short demo. The lease is long beside them, so that a busy
// machine does not end it.
var (
	demoPolling  = []string{"--poll-period=200ms", "--read-timeout=3s"}
	demoElection = append([]string{
		"--lease=60s", "--kill-grace=10s", "--kill-budget=15s", "--watchdog=20s", "--heartbeat=1s", "--delta-period=1s",
	}, demoPolling...)
)

// deployment is what runs for one owner id: a server, an etcd behind its gate, and
// a container in the store.
type deployment struct {
	name         string // also the owner id
	dir          string
	self         program
	etcd, server string           // where they answer, as URLs
	client       *clientv3.Client // of etcd

	stopping context.CancelFunc
	running  sync.WaitGroup
}

func newDeployment(ctx context.Context, name string, self program) (*deployment, error) {
	p := &deployment{name: name, dir: filepath.Join(self.dir, name), self: self, stopping: func() {}}
	if err := os.MkdirAll(filepath.Join(p.dir, "container"), 0o700); err != nil {
		return nil, err
	}
	for _, url := range []*string{&p.etcd, &p.server} {
		address, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		*url = "http://" + address
	}
	soon := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: demoLook, Multiplier: 1.5, MaxDelay: 5 * demoLook}, MinConnectTimeout: time.Second}
	var err error
	p.client, err = clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{p.etcd}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(soon)},
	})
	return p, err
}

// freeAddress returns one on which nobody listens. Its port is below those that
// outgoing connections get, lest one of them takes it before it is used.
func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	for {
		const lowest, highest = 10_000, 32_000
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.N(highest-lowest)) //nolint:gosec // no secret
		l, err := lc.Listen(ctx, "tcp", address)
		if err == nil {
			return address, l.Close()
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
}

func (p *deployment) container() string { return "file://" + filepath.Join(p.dir, "container") }
func (p *deployment) dataDir() string   { return filepath.Join(p.dir, "etcd") }

// stored is what is in the container.
func (p *deployment) stored(ctx context.Context) (archive.Listing, error) {
	return archive.New(file.New(filepath.Join(p.dir, "container"))).List(ctx)
}

// start runs the server and etcd's container until stop. Failed is told if the
// server ends by itself.
func (p *deployment) start(ctx context.Context, failed func(error)) {
	ctx, p.stopping = context.WithCancel(ctx)
	p.running.Go(func() {
		args := append([]string{
			"server", "--owner-id", p.name, "--store", p.container(), "--data-dir", p.dataDir(),
			"--etcd-endpoints", p.etcd, "--listen", p.server[len("http://"):],
		}, demoElection...)
		if err := p.self.run(ctx, p.name+"-server", nil, args...); ctx.Err() == nil {
			failed(fmt.Errorf("the server of %s ended, see its log: %w", p.name, err))
		}
	})
	p.running.Go(func() {
		for p.await(ctx, "/livez") == nil {
			// How it ended does not matter: it is started again, as a kubelet does.
			_ = p.self.run(ctx, p.name+"-etcd", nil, append([]string{"gate", "--server", p.server, "--", p.self.path}, p.etcdLine()...)...)
			_ = pause(ctx, demoBackOff)
		}
	})
}

func (p *deployment) etcdLine() []string {
	return []string{demoEtcd, "--data-dir", p.dataDir(), "--listen-client-urls", p.etcd}
}

// stop ends all of it in order, as Kubernetes ends a pod.
func (p *deployment) stop() {
	p.stopping()
	p.running.Wait()
}

// await returns when the server answers 200, or with the end of ctx.
func (p *deployment) await(ctx context.Context, path string) error {
	for {
		if status, err := p.ask(ctx, path, nil); err == nil && status == http.StatusOK {
			return nil
		}
		if err := pause(ctx, demoLook); err != nil {
			return err
		}
	}
}

// role returns what the server says it is.
func (p *deployment) role(ctx context.Context) (server.Role, error) {
	var o server.Ownership
	_, err := p.ask(ctx, "/owner", &o)
	return o.Role, err
}

// ask asks the server, and decodes the answer into v if there is one.
func (p *deployment) ask(ctx context.Context, path string, v any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoAnswer)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+path, nil)
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy of the environment either
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err == nil && v != nil {
		err = json.Unmarshal(body, v)
	}
	return response.StatusCode, err
}

// serves reports whether etcd answers a read.
func (p *deployment) serves(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, demoProbe)
	defer cancel()
	_, err := p.client.Get(ctx, "/")
	return err == nil
}

// hash returns the hash of etcd's key space at a revision.
func (p *deployment) hash(ctx context.Context, revision int64) (snapshot.HashKV, error) {
	c, err := etcd.Dial(ctx, etcd.Config{Endpoints: []string{p.etcd}})
	if err != nil {
		return snapshot.HashKV{}, err
	}
	defer c.Close()
	return c.HashKV(ctx, revision)
}

// pastTheGate starts etcd by hand and returns whether it served within a time.
func (p *deployment) pastTheGate(ctx context.Context, d time.Duration) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	p.running.Go(func() { ended <- p.self.run(ctx, p.name+"-by-hand", nil, p.etcdLine()...) })
	for until := time.Now().Add(d); time.Now().Before(until); {
		if p.serves(ctx) {
			return true, nil
		}
		select {
		case err := <-ended:
			return false, errors.Join(errors.New("the etcd that was started by hand ended by itself, see its log"), err)
		case <-time.After(demoLook):
		}
	}
	return false, ctx.Err()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
