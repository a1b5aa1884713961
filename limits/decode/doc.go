// Package decode bounds what is decoded, before it is decoded.
//
// Input: the JSON of an object and the Go type that it will be decoded into. Output: nothing, or the field that exceeds a
// limit. The API server validates an object against its schema only after the mutating webhooks, so an object here can
// have any content:
//
//   - resource.Quantity takes any number of digits and any exponent, and a dozen bytes such as 1e99999999
//     take a minute to parse or to compare;
//   - three bytes such as {}, in a list become a struct of a kilobyte each, and an object has room for a
//     million of them.
//
// It also selects the part of an object that is evaluated: without finalizers and managed fields, and of very many owner
// references only those of controllers. And it writes an object in a normal form, so that two objects that cannot be
// decoded can still be compared.
//
// Members and Elements visit the parts of JSON without decoding it, each byte once.
//
// The package never parses a quantity that exceeds the limits.
package decode
