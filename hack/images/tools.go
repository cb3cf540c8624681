//go:build tools

// Package images pins the programs that push images and serve them.
package images

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
	_ "github.com/google/go-containerregistry/cmd/crane"
)
