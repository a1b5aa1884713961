package hook

import "github.com/virtward/virtward/limits/memory"

// decodedFactor is how much more memory a decoded instance needs than its JSON.
const decodedFactor = 4

// WorstCase returns the most memory of the server.
func WorstCase() []memory.Bound {
	return []memory.Bound{{
		Name: "nodes/hook/requests", Subject: "calls of hooks", Bytes: (maxConnections*maxStreams + maxConcurrent*decodedFactor) * MaxMessage,
		Reason: "4 messages of at most 4 MiB; 2 of them are executed at the same time, and a decoded instance needs four times as much",
	}}
}
