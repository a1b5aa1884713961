// Package requests has what the controllers of requests for VM templates share: captures, imports and exports.
//
// Each of them is planned from what exists, as steps and a progress. What enters here: steps, which are applied in their order, and a
// progress, which becomes the conditions Progressing, Completed and Ready. What leaves: writes, and an error that names the step. The
// plans are not here. What CDI says about the claims of DataVolumes is read here, also for VirtualImages.
package requests
