package virtualimages

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// Sight says which users of an image an account may list in the cloud that stores it.
type Sight string

// The sights.
const (
	// AllProjects are those of all projects of the cloud.
	AllProjects Sight = "AllProjects"
	// OwnProject are those of the project of the account.
	OwnProject Sight = "OwnProject"
	// NotListed are none: the account may not list them, or the service does not filter them by image.
	NotListed Sight = "NotListed"
	// NoEndpoint are none: the cloud has no such service.
	NoEndpoint Sight = "NoEndpoint"
	// Unanswered are none this time: the service does not answer.
	Unanswered Sight = "Unanswered"
)

// reasonServersOnly is the reason of an image whose servers are counted and whose volumes are not.
const reasonServersOnly = "ServersOnly"

// CloudReasons are the reasons of the condition CloudUsersCounted.
var CloudReasons = []string{string(AllProjects), reasonServersOnly, string(OwnProject), string(NotListed), string(NoEndpoint), string(Unanswered), ReasonUnknown}

// MaxCloudUsers is the number of servers, and of volumes, up to which they are counted.
const MaxCloudUsers = 1000

// Listed are the users of one kind.
type Listed struct {
	Sight Sight
	// Number is at most MaxCloudUsers; 0 if none could be listed.
	Number int
	// Why is a sentence that says why not all could be listed.
	Why string
}

// counted reports whether the number is known.
func (l *Listed) counted() bool { return l.Sight == AllProjects || l.Sight == OwnProject }

// number is that for the status. One that could not be read this time stays as it was; one that may not be read is absent.
func (l *Listed) number(was *int32) *int32 {
	switch {
	case l.counted():
		n := int32(min(max(l.Number, 0), MaxCloudUsers))
		return &n
	case l.Sight == Unanswered:
		return was
	}
	return nil
}

// CloudUsers are the users of an image in the cloud that stores it: servers that were booted from it, and volumes that were made
// from it and are attached to servers. They have numbers and no names: readers of the image may have no rights in their projects.
type CloudUsers struct{ Servers, Volumes Listed }

// Unanswered reports whether a service did not answer, so that the numbers can be known later.
func (c *CloudUsers) Unanswered() bool {
	return c.Servers.Sight == Unanswered || c.Volumes.Sight == Unanswered
}

// condition says which users are counted. It is true if that are all.
func (c *CloudUsers) condition() (status metav1.ConditionStatus, reason, message string) {
	var parts []string
	for _, kind := range []struct {
		name   string
		listed *Listed
	}{{"servers", &c.Servers}, {"volumes", &c.Volumes}} {
		var part string
		switch kind.listed.Sight {
		case AllProjects:
			part = "the " + kind.name + " of all projects are counted"
		case OwnProject:
			part = "only the " + kind.name + " of the project of Virtward's account are counted"
		default:
			part = kind.name + " are not counted"
		}
		if kind.listed.Why != "" {
			part += ": " + kind.listed.Why
		}
		parts = append(parts, part)
	}
	message = strings.Join(parts, "; ")
	switch volumes := c.Volumes.Sight; {
	case c.Unanswered():
		return metav1.ConditionUnknown, string(Unanswered), message
	case c.Servers.Sight != AllProjects:
		return metav1.ConditionFalse, string(c.Servers.Sight), message
	case volumes == AllProjects, volumes == NoEndpoint: // a cloud without Cinder has no volumes
		return metav1.ConditionTrue, string(AllProjects), message
	}
	return metav1.ConditionFalse, reasonServersOnly, message
}

// cloudUse sets the users in the cloud that stores the image, and reports whether there are any.
func (p *planner) cloudUse() bool {
	was := p.Status.Usage.Cloud
	switch {
	case !p.CloudCounts:
		p.Status.Usage.Cloud = nil
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionCloudUsersCounted })
		return false
	case p.Cloud == nil:
		if p.Imported() && p.condition(v1alpha1.ConditionCloudUsersCounted).Type == "" {
			p.set(v1alpha1.ConditionCloudUsersCounted, metav1.ConditionUnknown, ReasonUnknown, "the servers of the cloud are not read yet")
		}
		return usesIn(was) > 0
	}
	if was == nil {
		was = &v1alpha1.VirtualImageCloudUsage{}
	}
	now := &v1alpha1.VirtualImageCloudUsage{Servers: p.Cloud.Servers.number(was.Servers), Volumes: p.Cloud.Volumes.number(was.Volumes)}
	if p.Status.Usage.Cloud = now; now.Servers == nil && now.Volumes == nil {
		p.Status.Usage.Cloud = nil
	}
	status, reason, message := p.Cloud.condition()
	p.set(v1alpha1.ConditionCloudUsersCounted, status, reason, message)
	return usesIn(now) > 0
}

// partlyCounted reports whether the image can have users in the cloud that are not counted.
func (p *planner) partlyCounted() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionCloudUsersCounted && c.Status != metav1.ConditionTrue
	})
}

// Imported reports whether a server can have been booted from the image: its import was complete once.
func (in *Input) Imported() bool {
	for _, c := range in.Image.Status.Conditions {
		if c.Type == v1alpha1.ConditionImported && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return in.Observation != nil && (in.Observation.State == Ready || in.Observation.State == Deactivated)
}

func usesIn(u *v1alpha1.VirtualImageCloudUsage) (n int32) {
	if u == nil {
		return 0
	}
	for _, number := range []*int32{u.Servers, u.Volumes} {
		if number != nil {
			n += *number
		}
	}
	return n
}

// UsedBy are the users of a status as texts: the virtual machines of the cluster, and the numbers of those in the cloud that stores
// the image.
func UsedBy(u *v1alpha1.VirtualImageUsage) []string {
	list := slices.Clone(u.VirtualMachines)
	if usesIn(u.Cloud) == 0 {
		return list
	}
	var parts []string
	for _, kind := range []struct {
		name   string
		number *int32
	}{{"server", u.Cloud.Servers}, {"volume", u.Cloud.Volumes}} {
		if kind.number == nil || *kind.number <= 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", *kind.number, kind.name)
		switch {
		case *kind.number >= MaxCloudUsers:
			part = fmt.Sprintf("%d or more %ss", *kind.number, kind.name)
		case *kind.number > 1:
			part += "s"
		}
		parts = append(parts, part)
	}
	return append(list, strings.Join(parts, " and ")+" in OpenStack")
}
