package glance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

var _ backend.Lister = (*Backend)(nil)

// ListsUsers implements backend.Lister.
func (b *Backend) ListsUsers() bool { return !b.IgnoreUsers }

// Users implements backend.Lister: servers of Nova and volumes of Cinder.
func (b *Backend) Users(ctx context.Context, image *backend.Image) *virtualimages.CloudUsers {
	return b.Client.users(ctx, image.ID, b.Timeout/2)
}

// perPage is the number of entries of a page, and maxPage bounds it. An entry of the short lists has an identifier, a name of 255
// characters and links: at most 4 KiB, whatever a user writes into the metadata of a server.
const (
	perPage = 100
	maxPage = 512 << 10
)

// absentImage is the identifier of no image. A service that lists something for it does not filter by image.
const absentImage = "00000000-0000-0000-0000-000000000000"

// service is a service of OpenStack that can be in a catalog.
type service struct {
	// name is for messages, types are those of the catalog.
	name  string
	types []string
	// list is the path of the short list, and the key of its entries.
	list string
	// version is the microversion of its requests, if they need one.
	version string
	// filter are the parameters that select the users of an image.
	filter func(image string) url.Values
	// limited says why an account may not list the users, and rejects is the status of the answer then.
	limited string
	rejects int
}

// The services. Glance lists no users.
var (
	glanceService = service{name: "Glance", types: []string{"image"}}
	nova          = service{
		name: "Nova", types: []string{"compute"}, list: "servers",
		filter:  func(image string) url.Values { return url.Values{"image": {image}} },
		limited: "Nova permits it only to admins", rejects: http.StatusForbidden,
	}
	// cinder needs the version 3.31: with it, Cinder rejects a filter that it does not apply. The ones before skip it silently.
	cinder = service{
		name: "Cinder", types: []string{"block-storage", "volumev3"}, list: "volumes", version: "3.31",
		filter: func(image string) url.Values {
			return url.Values{"glance_metadata": {fmt.Sprintf("{'image_id': '%s'}", image)}, "status": {"in-use"}}
		},
		limited: "Cinder permits it only to admins", rejects: http.StatusBadRequest,
	}
)

// place is where a service is.
type place struct {
	// url ends with a slash. Without it, missing says why there is none.
	url, missing string
	// state is that of the calls of this service: one that does not answer ends no calls of Glance.
	state *breaker
}

// users lists the users of an image. The timeout is that of the login, and of each service.
func (c *Client) users(ctx context.Context, image string, timeout time.Duration) *virtualimages.CloudUsers {
	of := func(s *connection, at *place, of *service) virtualimages.Listed {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return listed(ctx, s, at, of, image)
	}
	login, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := c.connect(login)
	if err != nil {
		unanswered := virtualimages.Listed{Sight: virtualimages.Unanswered, Why: "Keystone does not answer"}
		var fault *backend.Unavailable
		if errors.As(err, &fault) {
			unanswered.Why = fault.Message
		}
		return &virtualimages.CloudUsers{Servers: unanswered, Volumes: unanswered}
	}
	found := &virtualimages.CloudUsers{Servers: of(s, &s.compute, &nova), Volumes: of(s, &s.volumes, &cinder)}
	if found.Servers.Sight == virtualimages.OwnProject && found.Volumes.Sight == virtualimages.AllProjects {
		// Cinder lists those of the own project without an error to accounts that may not list others
		found.Volumes.Sight, found.Volumes.Why = virtualimages.OwnProject, cinder.limited
	}
	return found
}

// listed counts what a service lists for an image: of all projects, or of the project of the account if that is not permitted.
func listed(ctx context.Context, s *connection, at *place, of *service, image string) virtualimages.Listed {
	if at.url == "" {
		return virtualimages.Listed{Sight: virtualimages.NoEndpoint, Why: at.missing}
	}
	result := virtualimages.Listed{Sight: virtualimages.AllProjects}
	filter := of.filter(image)
	filter.Set("all_tenants", "1")
	number, err := count(ctx, s, at, of, filter)
	if status := statusOf(err); status == http.StatusForbidden || status == of.rejects {
		result.Sight, result.Why = virtualimages.OwnProject, of.limited
		filter.Del("all_tenants")
		number, err = count(ctx, s, at, of, filter)
	}
	if number > 0 && err == nil {
		var others int
		maps.Copy(filter, of.filter(absentImage))
		if others, err = count(ctx, s, at, of, filter); others > 0 && err == nil {
			return virtualimages.Listed{Sight: virtualimages.NotListed, Why: of.name + " does not filter its list by image"}
		}
	}
	switch status := statusOf(err); {
	case err == nil:
		result.Number = number
		return result
	case errors.Is(err, errPaused):
		return virtualimages.Listed{Sight: virtualimages.Unanswered, Why: of.name + " does not answer"}
	case status == http.StatusForbidden:
		return virtualimages.Listed{Sight: virtualimages.NotListed, Why: of.name + " does not permit it to the account"}
	case status == of.rejects:
		return virtualimages.Listed{Sight: virtualimages.NotListed, Why: of.limited}
	case status >= 300 && status < 500 && status != http.StatusUnauthorized && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		return virtualimages.Listed{Sight: virtualimages.NotListed, Why: fmt.Sprintf("%s answers %d %s", of.name, status, http.StatusText(status))}
	case status != 0:
		return virtualimages.Listed{Sight: virtualimages.Unanswered, Why: fmt.Sprintf("%s answers %d %s", of.name, status, http.StatusText(status))}
	}
	return virtualimages.Listed{Sight: virtualimages.Unanswered, Why: of.name + " does not answer as expected"}
}

// page is a part of a short list. Only the last identifier and the number of its entries are kept.
type page struct {
	Servers []listing `json:"servers"`
	Volumes []listing `json:"volumes"`
	// Links have one with the relation next if the list continues.
	ServerLinks []relation `json:"servers_links"`
	VolumeLinks []relation `json:"volumes_links"`
}

type listing struct {
	ID string `json:"id"`
}

type relation struct {
	Name string `json:"rel"`
}

// count counts the entries of a list, up to the bound. It reads the next page by the identifier of the last entry, and follows no
// URL of an answer. A token that is rejected is not renewed here, so that a service that rejects each one causes no logins: the
// calls of Glance renew it.
func count(ctx context.Context, s *connection, at *place, of *service, filter url.Values) (int, error) {
	calls := gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{HTTPClient: s.HTTPClient, TokenID: s.Token()}, Endpoint: at.url, Type: of.types[len(of.types)-1], Microversion: of.version, MoreHeaders: s.MoreHeaders,
	}
	ctx = context.WithValue(context.WithValue(ctx, apart{}, at.state), limit{}, int64(maxPage))
	query := url.Values{"limit": {fmt.Sprint(perPage)}}
	maps.Copy(query, filter)
	number, marker := 0, ""
	for { // each page has an entry more, or ends the list
		var p page
		_, err := calls.Get(ctx, calls.ServiceURL(of.list)+"?"+query.Encode(), &p, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}) //nolint:bodyclose // gophercloud closes it after it has decoded it
		if err != nil {
			return 0, err
		}
		entries, links := p.Servers, p.ServerLinks
		if of == &cinder {
			entries, links = p.Volumes, p.VolumeLinks
		}
		number += len(entries)
		if len(entries) == 0 || number >= virtualimages.MaxCloudUsers || !slices.Contains(links, relation{"next"}) || entries[len(entries)-1].ID == marker {
			return min(number, virtualimages.MaxCloudUsers), nil
		}
		marker = entries[len(entries)-1].ID
		query.Set("marker", marker)
	}
}
