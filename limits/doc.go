// Package limits bounds what is decoded, before it is decoded.
//
// What enters: the JSON of an object and the Go type that it will be decoded into. What leaves: nothing, or
// the field whose quantity is out of all proportion. resource.Quantity takes any number of digits and any
// exponent, and a dozen bytes such as 1e99999999 keep whoever parses or compares them busy for a minute;
// the schemas of KubeVirt's resources allow them. The package parses no quantity itself.
package limits
