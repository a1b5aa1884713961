// Package decodelimits bounds what is decoded, before it is decoded.
//
// What enters: the JSON of an object and the Go type that it will be decoded into. What leaves: nothing, or
// the field that is out of all proportion. The API server checks an object against its schema only after the
// mutating webhooks, so what arrives here is whatever somebody typed:
//
//   - resource.Quantity takes any number of digits and any exponent, and a dozen bytes such as 1e99999999
//     keep whoever parses or compares them busy for a minute;
//   - three bytes such as {}, in a list become a struct of a kilobyte each, and an object has room for a
//     million of them.
//
// It also says what of an object is evaluated: not the finalizers, not what field managers note, and of very many owner
// references only those of controllers. And it writes an object in a normal form, so that two that cannot be decoded can
// still be compared.
//
// No quantity is parsed that is out of all proportion.
package decodelimits
