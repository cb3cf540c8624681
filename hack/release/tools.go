//go:build tools

// Package release pins the programs that sign release files, and list the modules of a Go program.
package release

import (
	_ "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"
	_ "github.com/sigstore/cosign/v3/cmd/cosign"
)
