package downloads

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// final is an error that the next request has too.
type final struct{ error }

// Unwrap returns the error.
func (f final) Unwrap() error { return f.error }

// wait is an error of a server that says when to ask again.
type wait struct {
	error

	after time.Duration
}

// retry repeats a request until it has no error, or an error that does not pass.
func (d *download) retry(ctx context.Context, request func(context.Context) error) error {
	pause := d.Pause
	for failures := 1; ; failures++ {
		before := d.offset
		err := request(ctx)
		var known final
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &known):
			return known.error
		}
		if d.offset > before {
			d.result.Breaks++
			failures, pause = 0, d.Pause
		} else if failures == maxFailures {
			return fmt.Errorf("after %d requests without a byte: %w", failures, err)
		}
		var asked wait
		if errors.As(err, &asked) {
			pause = max(pause, min(asked.after, maxPause))
		}
		d.note("%v: continuing in %s", err, pause)
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

// head reads the size and the tag.
func (d *download) head(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.Stall)
	defer cancel()
	response, err := d.send(ctx, http.MethodHead, nil)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answered(response, "")
	}
	if d.tag = tagOf(response); d.tag == "" || response.ContentLength <= 0 {
		return final{errors.New("the server sends neither an ETag of an export nor a size")}
	}
	d.size = response.ContentLength
	return nil
}

// tags are those of package archive.
var tags = regexp.MustCompile(`^(?:W/)?"([0-9a-f]{32})"$`)

// tagOf is the tag in an ETag, also in one that a proxy has made weak; empty for another one.
func tagOf(response *http.Response) string {
	if found := tags.FindStringSubmatch(response.Header.Get("ETag")); found != nil {
		return found[1]
	}
	return ""
}

func (d *download) send(ctx context.Context, method string, header map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, d.URL, nil)
	if err != nil {
		return nil, final{err}
	}
	maps.Copy(request.Header, d.Header)
	request.Header.Set("Accept-Encoding", "identity") // a proxy must not compress
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := d.Client.Do(request)
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return nil, final{err}
	}
	return response, err
}

// answered is the error of an answer without the file.
func answered(response *http.Response, body string) error {
	err := fmt.Errorf("the server answered %s", texts.OneLine(response.Status))
	if text := strings.TrimSpace(texts.OneLine(body)); text != "" {
		err = fmt.Errorf("%w: %s", err, texts.Shorten(text, maxReason))
	}
	switch response.StatusCode {
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
		return final{fmt.Errorf("%w: it has no such export, or the token is not the right one", err)}
	case http.StatusTooManyRequests, http.StatusRequestTimeout:
	default:
		if response.StatusCode < http.StatusInternalServerError {
			return final{err}
		}
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 for none
	return wait{err, time.Duration(max(0, min(seconds, 3600))) * time.Second}
}

// get requests what is missing.
func (d *download) get(ctx context.Context) (*http.Response, error) {
	header := map[string]string{}
	if d.offset > 0 {
		header["Range"] = fmt.Sprintf("bytes=%d-", d.offset)
		header["If-Range"] = `"` + d.tag + `"`
	}
	response, err := d.send(ctx, http.MethodGet, header)
	if err != nil {
		return nil, cause(ctx, err)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxReason)) // a part of the reason is enough
		response.Body.Close()
		return nil, answered(response, string(body))
	}
	if tagOf(response) != d.tag {
		response.Body.Close()
		return nil, final{ErrChanged}
	}
	return response, nil
}

// receive requests what is missing, and writes it.
func (d *download) receive(ctx context.Context, part *os.File) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := d.stalled(cancel)
	defer stalled.Stop()
	response, err := d.get(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := d.place(response, part); err != nil {
		return err
	}
	buffer := make([]byte, 256<<10)
	for {
		n, err := response.Body.Read(buffer)
		stalled.Reset(d.Stall)
		n = int(min(int64(n), d.size-d.offset)) // the size of the answer is not believed
		if n > 0 {
			written, failed := d.write(part, buffer[:n])
			d.offset += int64(written)
			d.meter.Add(int64(written))
			if failed != nil {
				return final{fmt.Errorf("%w: after making room, call the command again to continue", failed)}
			}
		}
		switch {
		case d.offset == d.size:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return cause(ctx, err)
		}
	}
}

// stalled ends a request without a byte for a time.
func (d *download) stalled(cancel context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(d.Stall, func() { cancel(fmt.Errorf("no byte came for %s", d.Stall)) })
}

// place moves to where the answer begins: where the part ends, or at the beginning if the server sends no ranges.
func (d *download) place(response *http.Response, part *os.File) error {
	if response.StatusCode == http.StatusPartialContent || d.offset == 0 {
		return d.checkRange(response)
	}
	d.note("the server sends no ranges: beginning again")
	d.offset, d.result.Resumed = 0, 0
	d.meter = options.NewMeter(d.ErrOut, "receiving", d.size)
	if err := part.Truncate(0); err != nil {
		return final{err}
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return final{err}
	}
	return nil
}

// checkRange rejects another part than the one that was requested.
func (d *download) checkRange(response *http.Response) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}
	want := fmt.Sprintf("bytes %d-%d/%d", d.offset, d.size-1, d.size)
	if got := response.Header.Get("Content-Range"); d.offset == 0 || got != want {
		return final{fmt.Errorf("the server sends the range %q, not %q", texts.Shorten(got, maxReason), want)}
	}
	return nil
}

// cause is why a request ended.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
