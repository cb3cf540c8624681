//go:build tools

// Package prometheus pins the program that checks rules of alerts.
package prometheus

import _ "github.com/prometheus/prometheus/cmd/promtool"
