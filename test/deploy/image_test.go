package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile.
type instruction struct{ name, rest string }

func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	text := strings.ReplaceAll(string(read(t, "../../Dockerfile")), "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{name, strings.TrimSpace(rest)})
	}
	return all
}

// buildLine is the command that builds the program for the image.
func buildLine(t *testing.T) string {
	t.Helper()
	for _, i := range dockerfile(t) {
		if i.name == "RUN" && strings.Contains(i.rest, "go build") {
			return i.rest
		}
	}
	t.Fatal("the Dockerfile builds nothing")
	return ""
}

// The image has the program, whom to trust and who it is, and nothing else.
func TestImageIsBare(t *testing.T) {
	all := dockerfile(t)
	last := 0
	for i, in := range all {
		if in.name == "FROM" {
			last = i
		}
	}
	if all[last].rest != "scratch" {
		t.Errorf("the image is made from %s", all[last].rest)
	}
	var copied []string
	for _, in := range all[last+1:] {
		switch in.name {
		case "COPY":
			words := strings.Fields(in.rest)
			if words[0] != "--from=build" {
				t.Errorf("COPY %s is not from the build", in.rest)
			}
			copied = append(copied, words[1:len(words)-1]...)
		case "USER":
			if in.rest != "65532:65532" {
				t.Errorf("it runs as %s", in.rest)
			}
		case "ENTRYPOINT":
			if in.rest != `["`+entrypoint+`"]` {
				t.Errorf("the manifests count on %s, the entrypoint is %s", entrypoint, in.rest)
			}
		case "ARG", "LABEL":
		default:
			t.Errorf("%s %s", in.name, in.rest)
		}
	}
	want := []string{"/etc/ssl/certs/ca-certificates.crt", "/out/passwd", "/out/group", "/out/etcd-ferry"}
	if !slices.Equal(copied, want) {
		t.Errorf("in it are %q, want %q", copied, want)
	}
}

// How the program is built: static, for the platform that is asked for, and the same
// everywhere. "make reproduce" does it.
func TestImageBuildIsReproducible(t *testing.T) {
	line := buildLine(t)
	for _, want := range []string{"CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOOS=$TARGETOS", "GOARCH=$TARGETARCH", "-trimpath", "-buildvcs=false", "-X main.version=$VERSION"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is missing in: %s", want, line)
		}
	}
	tags := submatches(`(?m)^TAGS := (\S+)$`, string(read(t, "../../Makefile")))
	if len(tags) != 1 || !strings.Contains(line, "-tags "+tags[0]+" ") {
		t.Errorf("the Makefile builds with the tags %q, the image is built by: %s", tags, line)
	}
	for _, in := range dockerfile(t) {
		version := regexp.MustCompile(`golang:(\S+)`).FindStringSubmatch(in.rest)
		if in.name == "FROM" && version != nil && !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version[1]) {
			t.Errorf("%s is not one version", version[1])
		}
	}
}

// What the build needs of the repository gets there.
func TestDockerignoreLetsTheProgramIn(t *testing.T) {
	ignore := string(read(t, "../../.dockerignore"))
	out, err := goList(t)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.Lines(out) {
		folder, inside := strings.CutPrefix(strings.TrimSpace(dir), root+string(os.PathSeparator))
		top, _, _ := strings.Cut(folder, string(os.PathSeparator))
		if inside && !strings.Contains(ignore, "\n!"+top+"\n") {
			t.Errorf("%s does not get into the image's build", top)
		}
	}
}
