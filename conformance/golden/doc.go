// Package golden compares the golden images of Virtward with recorded answers of HCO, SSP and CDI.
//
// An answer is equal; or better, if the recorded one is a documented fault, and the case knows the right answer and finds
// it; or other. Cases about fields that only HCO or SSP have are not applicable.
package golden
