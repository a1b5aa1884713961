package apiserver

import (
	"net"
	"testing"
	"time"
)

// TestListener holds that silent connections are closed for new ones, and that active ones stay.
func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	l := bound(inner, 3)
	dial := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	active, atServer := dial()
	var silent []net.Conn
	for range 10 {
		client, _ := dial()
		silent = append(silent, client)
		if _, err := active.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := atServer.Read(make([]byte, 1)); err != nil {
			t.Fatalf("the active connection is closed: %v", err)
		}
	}
	for i, c := range silent {
		if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 1))
		timeout, isTimeout := err.(net.Error) //nolint:errorlint // it is not wrapped
		if open := isTimeout && timeout.Timeout(); open != (i >= 8) {
			t.Errorf("connection %d is open: %t", i, open)
		}
	}
	if err := atServer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, server := dial(); server == nil {
		t.Error("no room for another connection")
	}
}
