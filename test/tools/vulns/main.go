// Vulns looks for known vulnerabilities in what the program calls, with govulncheck:
//
//	vulns -db https://vuln.go.dev .tools/govulncheck ./cmd/...
//
// It fails if there is one, and if govulncheck does. If the database of vulnerabilities
// does not answer it says that nothing was looked at, and does not fail: a build must not
// depend on somebody else's server, and no code of ours has become worse by its silence.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// patience is for one answer of the database.
const patience = 20 * time.Second

func main() {
	db := flag.String("db", "https://vuln.go.dev", "`URL` of the database")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	os.Exit(look(context.Background(), *db, flag.Args(), os.Stdout))
}

// look returns the exit code.
func look(ctx context.Context, db string, command []string, out io.Writer) int {
	if err := answers(ctx, db); err != nil {
		fmt.Fprintf(out, "NOT LOOKED FOR: vulnerabilities, because the database does not answer: %v\n", err)
		return 0
	}
	cmd := exec.CommandContext(ctx, command[0], append([]string{"-db", db}, command[1:]...)...)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		fmt.Fprintln(out, "vulns: update what is named above, or show in a comment of go.mod why it does not matter")
		return 1
	}
	if err != nil {
		fmt.Fprintln(out, "vulns:", err)
		return 1
	}
	return 0
}

// answers returns nil if the database gives its index.
func answers(ctx context.Context, db string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, db+"/index/modules.json.gz", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
