// Sbom writes a bill of materials of a Go program: every module that is linked into
// it, as CycloneDX JSON on standard output. It is read from the program itself, so
// that it cannot tell of anything else; only the program's own version has to be
// given, which -trimpath leaves out. The same program makes the same bytes.
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	return cyclonedx.NewBOMEncoder(os.Stdout, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(describe(info, version))
}

func describe(info *buildinfo.BuildInfo, version string) *cyclonedx.BOM {
	main := component(info.Main)
	main.Type, main.Version = cyclonedx.ComponentTypeApplication, version
	main.PackageURL = "pkg:golang/" + info.Main.Path + "@" + version + "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/")
	main.BOMRef = main.PackageURL
	library := component(debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	components, needs := []cyclonedx.Component{library}, []string{library.BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(*m)
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return bom
}

func component(m debug.Module) cyclonedx.Component {
	c := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
		PackageURL: "pkg:golang/" + m.Path + "@" + m.Version,
	}
	c.BOMRef = c.PackageURL
	if m.Sum != "" { // as in go.sum: a hash of hashes, for which CycloneDX has no name
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
