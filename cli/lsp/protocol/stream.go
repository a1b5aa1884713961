package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Bounds of a message.
const (
	// MaxMessage is the size of a message in bytes. Larger ones are skipped.
	MaxMessage = 16 << 20
	// maxHeader bounds the lines of a header.
	maxHeader = 16
	// beginning is what is kept of a message that is skipped.
	beginning = 256
)

// Message is a request, a notification or a response.
type Message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is why a request failed.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// The codes of errors.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeUnknownMethod  = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeNotInitialized = -32002
	CodeCancelled      = -32800
)

// TooLarge is a message that was skipped, because it is larger than MaxMessage.
type TooLarge struct {
	// Begin is its beginning.
	Begin string
}

// Error implements error.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("a message can have at most %d MiB", MaxMessage>>20)
}

// Stream reads and writes messages. Reading is for one goroutine, and writing for any number.
type Stream struct {
	reader *bufio.Reader
	mutex  sync.Mutex
	writer io.Writer
}

// NewStream returns a stream.
func NewStream(r io.Reader, w io.Writer) *Stream {
	return &Stream{reader: bufio.NewReader(r), writer: w}
}

// Read returns the next message. It returns io.EOF behind the last one, and an *Error for a body that is no message, or a *TooLarge: the
// stream continues behind it. Every other error ends the stream.
func (s *Stream) Read() (*Message, error) {
	length, err := s.header()
	if err != nil {
		return nil, err
	}
	if length > MaxMessage {
		begin := make([]byte, beginning)
		_, err := io.ReadFull(s.reader, begin)
		if err == nil {
			_, err = io.CopyN(io.Discard, s.reader, length-beginning)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a message: %w", err)
		}
		return nil, &TooLarge{string(begin)}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(s.reader, body); err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	m := &Message{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, &Error{Code: CodeParse, Message: "the message is not valid JSON: " + err.Error()}
	}
	if m.Version != "2.0" {
		return nil, &Error{Code: CodeInvalidRequest, Message: `jsonrpc must be "2.0"`}
	}
	return m, nil
}

// header returns the length of the body.
func (s *Stream) header() (int64, error) {
	length := int64(-1)
	for i := 0; ; i++ {
		raw, err := s.reader.ReadSlice('\n')
		if errors.Is(err, io.EOF) && i == 0 && len(raw) == 0 {
			return 0, io.EOF
		}
		if err != nil {
			return 0, fmt.Errorf("reading the header of a message: %w", err)
		}
		line := strings.TrimRight(string(raw), "\r\n")
		if line == "" {
			break
		}
		if i >= maxHeader {
			return 0, fmt.Errorf("the header of a message must have at most %d lines", maxHeader)
		}
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
				return 0, fmt.Errorf("Content-Length must be a number: %q", value)
			}
		}
	}
	if length < 0 {
		return 0, errors.New("Content-Length must be set, and be 0 or more")
	}
	return length, nil
}

// Write writes a message.
func (s *Stream) Write(m *Message) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, err = fmt.Fprintf(s.writer, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}
