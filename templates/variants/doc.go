// Package variants plans the variants of VM templates: one for each architecture that the image of a template is imported for.
//
// Input: a VM template, the catalogs of golden images, and the existing variants. Output: the next writes, or why a template gets
// no variants. The package is pure.
package variants
