package effective

import "github.com/virtward/virtward/cel"

// Previews are those of a pipeline.
func Previews(p *Pipeline, in *Input, v *Verdict) (*cel.Previews, int64) { return p.previews(in, v) }
