package hook

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Request is an ExecuteNodeHookRequest.
type Request struct {
	// Point is the hook point, such as PreVMStart.
	Point string
	// VMI is the instance in JSON.
	VMI []byte
	// Node is the name of the node.
	Node string
}

// response is an ExecuteNodeHookResponse, which has no fields.
type response struct{}

// decode reads a message.
func (r *Request) decode(message []byte) error {
	return fields(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			r.Point = string(value)
		case 2:
			r.VMI = value
		case 3:
			return fields(value, func(number protowire.Number, value []byte) error {
				if number == 1 {
					r.Node = string(value)
				}
				return nil
			})
		}
		return nil
	})
}

// fields calls a function for each field with bytes, and skips others.
func fields(message []byte, visit func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := visit(number, value); err != nil {
			return err
		}
	}
	return nil
}

// codec reads and writes the two messages of the service.
type codec struct{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if _, is := v.(*response); !is {
		return nil, fmt.Errorf("%T is no message of the service", v)
	}
	return nil, nil
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	request, is := v.(*Request)
	if !is {
		return errors.New("the service has no such message")
	}
	return request.decode(data.Materialize())
}
