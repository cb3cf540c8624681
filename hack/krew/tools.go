//go:build tools

// Package krew pins the programs that check the manifest of the kubectl plugin.
package krew

import (
	_ "sigs.k8s.io/krew/cmd/krew"
	_ "sigs.k8s.io/krew/cmd/validate-krew-manifest"
)
