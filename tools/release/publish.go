package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/virtward/virtward/tools/release/images"
)

// pushCommand pushes the images, the charts and their signatures to the registry that the release names.
func pushCommand(ctx context.Context, args []string, out io.Writer) error {
	dist, err := folderOf(flag.NewFlagSet("push", flag.ContinueOnError), args)
	if err != nil {
		return err
	}
	return push(ctx, dist, out)
}

// pushable is an image, an index or a chart.
type pushable interface {
	remote.Taggable
	partial.Describable
}

func push(ctx context.Context, dist string, out io.Writer) error {
	references, err := readReferences(dist)
	if err != nil {
		return err
	}
	for _, r := range references {
		if err := r.push(ctx, dist); err != nil {
			return fmt.Errorf("pushing %s: %w", r.Name, err)
		}
		fmt.Fprintf(out, "pushed %s:%s@%s\n", r.Name, r.Tag, r.Digest)
	}
	return nil
}

func readReferences(dist string) (references []reference, err error) {
	content, err := os.ReadFile(filepath.Join(dist, referencesFile))
	if err == nil {
		err = json.Unmarshal(content, &references)
	}
	return references, err
}

func (r reference) push(ctx context.Context, dist string) error {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	item, err := r.read(dist, folder)
	if err != nil {
		return err
	}
	descriptor, err := partial.Descriptor(item)
	if err != nil {
		return err
	}
	if descriptor.Digest.String() != r.Digest {
		return fmt.Errorf("%s has the digest %s, but the release %s", r.File, descriptor.Digest, r.Digest)
	}
	repository, err := name.NewRepository(r.Name)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.Push(repository.Tag(r.Tag), item, options...); err != nil {
		return err
	}
	bundle, err := os.ReadFile(filepath.Join(dist, r.Statement+".sigstore.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the release is not signed
	}
	if err != nil {
		return err
	}
	subject := v1.Descriptor{MediaType: descriptor.MediaType, Digest: descriptor.Digest, Size: descriptor.Size}
	signature, err := images.Signature(subject, signPredicate, bundle)
	if err != nil {
		return err
	}
	digest, err := signature.Digest()
	if err != nil {
		return err
	}
	return remote.Write(repository.Digest(digest.String()), signature, options...)
}

// read returns what the file of a reference has. The folder must exist until it is pushed.
func (r reference) read(dist, folder string) (pushable, error) {
	path := filepath.Join(dist, r.File)
	if strings.HasSuffix(r.File, chartSuffix) {
		return readChart(path)
	}
	return images.ReadLayout(path, folder)
}

// serveCommand pushes a release to a registry on loopback that it serves itself, and serves the files beside it.
func serveCommand(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	address := set.String("listen", "127.0.0.1:5000", "the address of the registry and of the files")
	dist, err := folderOf(set, args)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("opening the port of the registry: %w", err)
	}
	server := &http.Server{Handler: handler(dist), ReadHeaderTimeout: 10 * time.Second}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // ends with Close
	if err := push(ctx, dist, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "serving the release at %s; press Ctrl-C to end\n", listener.Addr())
	<-ctx.Done()
	return nil
}

// handler serves a registry in memory, and the files of a release below /download/.
func handler(dist string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v2/", registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	mux.Handle("/download/", http.StripPrefix("/download/", http.FileServer(http.Dir(dist))))
	return mux
}
