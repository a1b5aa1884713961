package options

import "fmt"

// JoinErrors joins errors in one line, unlike errors.Join. It returns nil if there is none.
func JoinErrors(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
