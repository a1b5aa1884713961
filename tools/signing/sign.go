package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"
)

// payloadType is that of statements.
const payloadType = "application/vnd.in-toto+json"

// audience of the tokens that Fulcio accepts.
const audience = "sigstore"

func signCommand(ctx context.Context, dist, key string, keyless bool, out io.Writer) error {
	var pair sign.Keypair
	var err error
	options := func(context.Context) (sign.BundleOptions, error) { return sign.BundleOptions{Context: ctx}, nil }
	switch {
	case keyless == (key != ""):
		return errors.New("either -key or -keyless is required")
	case keyless:
		options = keylessOptions
		pair, err = sign.NewEphemeralKeypair(nil)
	default:
		var own *keyPair
		if own, err = loadKey(key); err == nil {
			pair = own
			err = writePublicKey(dist, own)
		}
	}
	if err != nil {
		return err
	}
	artifacts, statements, err := signed(dist)
	if err != nil {
		return err
	}
	for _, name := range append(artifacts, statements...) {
		with, err := options(ctx)
		if err != nil {
			return err
		}
		if err := signFile(filepath.Join(dist, name), pair, with); err != nil {
			return fmt.Errorf("signing %s: %w", name, err)
		}
	}
	fmt.Fprintf(out, "signed %d artifacts and %d statements\n", len(artifacts), len(statements))
	return nil
}

func writePublicKey(dist string, pair *keyPair) error {
	public, err := pair.GetPublicKeyPem()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, publicKeyFile), []byte(public), 0o644)
}

// signFile writes the bundle of a file beside it.
func signFile(path string, pair sign.Keypair, options sign.BundleOptions) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var content sign.Content = &sign.PlainData{Data: data}
	if isStatement(path) {
		content = &sign.DSSEData{Data: data, PayloadType: payloadType}
	}
	bundle, err := sign.Bundle(content, pair, options)
	if err != nil {
		return err
	}
	encoded, err := protojson.Marshal(bundle)
	if err != nil {
		return err
	}
	var compact bytes.Buffer // protojson adds spaces at random
	if err := json.Compact(&compact, encoded); err != nil {
		return err
	}
	return os.WriteFile(path+bundleSuffix, compact.Bytes(), 0o644)
}

// keylessOptions name the services of Sigstore's public instance, whose list Sigstore signs. A token is valid for some minutes, so
// each signature has its own.
func keylessOptions(ctx context.Context) (sign.BundleOptions, error) {
	options := sign.BundleOptions{Context: ctx}
	token, err := githubToken(ctx)
	if err != nil {
		return options, fmt.Errorf("reading the identity of the workflow: %w", err)
	}
	config, err := root.FetchSigningConfig()
	if err != nil {
		return options, fmt.Errorf("reading the services of Sigstore: %w", err)
	}
	if options.TrustedRoot, err = root.FetchTrustedRoot(); err != nil {
		return options, fmt.Errorf("reading the trusted root of Sigstore: %w", err)
	}
	now := time.Now()
	authority, err := root.SelectService(config.FulcioCertificateAuthorityURLs(), sign.FulcioAPIVersions, now)
	if err != nil {
		return options, err
	}
	options.CertificateProvider = sign.NewFulcio(&sign.FulcioOptions{BaseURL: authority.URL, Timeout: 30 * time.Second, Retries: 3})
	options.CertificateProviderOptions = &sign.CertificateProviderOptions{IDToken: token}
	stamps, err := root.SelectServices(config.TimestampAuthorityURLs(), config.TimestampAuthorityURLsConfig(), sign.TimestampAuthorityAPIVersions, now)
	if err != nil {
		return options, err
	}
	for _, service := range stamps {
		options.TimestampAuthorities = append(options.TimestampAuthorities,
			sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: service.URL, Timeout: 30 * time.Second, Retries: 3}))
	}
	logs, err := root.SelectServices(config.RekorLogURLs(), config.RekorLogURLsConfig(), sign.RekorAPIVersions, now)
	if err != nil {
		return options, err
	}
	for _, service := range logs {
		options.TransparencyLogs = append(options.TransparencyLogs,
			sign.NewRekor(&sign.RekorOptions{BaseURL: service.URL, Timeout: 90 * time.Second, Retries: 3, Version: service.MajorAPIVersion}))
	}
	return options, nil
}

// githubToken asks GitHub Actions for a token of the workflow. The workflow needs the permission id-token: write.
func githubToken(ctx context.Context) (string, error) {
	address, secret := os.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), os.Getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	if address == "" || secret == "" {
		return "", errors.New("this is not a workflow of GitHub with the permission id-token: write")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"&audience="+url.QueryEscape(audience), nil) //nolint:gosec // the runner of GitHub sets the address
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Do(request) //nolint:gosec // as above
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GitHub answers %s", answer.Status)
	}
	var token struct {
		Value string `json:"value"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&token)
	return token.Value, err
}
