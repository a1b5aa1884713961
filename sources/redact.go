package sources

import "net/url"

// maxRedacted bounds a URL in a message in bytes.
const maxRedacted = 300

// Redact returns a URL for messages: without its credentials, its query and its fragment, which can have secrets. Other characters than
// those of ASCII are escaped.
func Redact(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return "a URL that cannot be parsed"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.RawQuery != "" || u.ForceQuery {
		u.RawQuery, u.ForceQuery = "redacted", false
	}
	redacted := u.String()
	return redacted[:min(len(redacted), maxRedacted)]
}
