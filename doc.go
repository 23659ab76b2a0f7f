package main

import (
	// The libraries the project stands on, pinned here until each floor imports its own.
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/planetscale/vtprotobuf/protohelpers"
	_ "github.com/urfave/cli/v2"
	_ "github.com/containerd/cgroups/v3"
	_ "google.golang.org/protobuf/proto"
	_ "golang.org/x/term"
	_ "golang.org/x/sys/unix"
	_ "github.com/nats-io/nkeys"
)
