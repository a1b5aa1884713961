package goldenimages

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

// Claims are the names that the entries of a catalog use. A name belongs to one catalog of its namespace.
type Claims struct {
	Catalog, Namespace string
	UID                types.UID
	Created            metav1.Time
	// Names are those of the entries that are valid and not disabled.
	Names []Claim
}

// Claim is the names that an entry uses.
type Claim struct {
	// Cron is the name of the entry and of its DataImportCron, and Source that of its DataSource, without a suffix.
	Cron, Source string
	// Suffixed reports whether the entry uses both names with the suffixes of all architectures, too.
	Suffixed bool
}

// ClaimsOf returns the names that a catalog uses, with those of the common images if it has these.
func ClaimsOf(catalog *v1alpha1.GoldenImageCatalog, common []v1alpha1.DataImportCronTemplate) Claims {
	catalog = withCommon(catalog, common)
	claims := Claims{Catalog: catalog.Name, Namespace: NamespaceOf(catalog), UID: catalog.UID, Created: catalog.CreationTimestamp}
	for _, e := range ownEntries(&Input{Catalog: catalog}) {
		if e.problem == nil && !e.disabled {
			claims.Names = append(claims.Names, *e.claim())
		}
	}
	return claims
}

// Size is an estimate of the memory of claims, in bytes.
func (c *Claims) Size() int64 {
	size := int64(256 + len(c.Catalog) + len(c.Namespace) + len(c.UID))
	for i := range c.Names {
		size += int64(64 + len(c.Names[i].Cron) + len(c.Names[i].Source))
	}
	return size
}

// older orders claims by the age of their catalogs.
func older(a, b *Claims) int {
	return cmp.Or(a.Created.Time.Compare(b.Created.Time), cmp.Compare(a.Catalog, b.Catalog))
}

// names are all names that a claim uses, with suffixes.
func (c *Claim) names() (crons, sources []string) {
	crons, sources = []string{c.Cron}, []string{c.Source}
	if c.Suffixed {
		for _, architecture := range architectures.Names() {
			crons, sources = append(crons, Suffixed(c.Cron, architecture)), append(sources, Suffixed(c.Source, architecture))
		}
	}
	return crons, sources
}

// owners are the catalogs that names of DataImportCrons and DataSources belong to.
type owners struct{ crons, sources map[string]string }

// add gives the names of an entry to a catalog, unless one of them belongs to another one.
func (o *owners) add(catalog string, claim *Claim) {
	if _, _, owner := o.conflict(claim); owner != "" {
		return
	}
	crons, sources := claim.names()
	for _, name := range crons {
		o.crons[name] = catalog
	}
	for _, name := range sources {
		o.sources[name] = catalog
	}
}

// conflict returns the first name of an entry that belongs to another catalog.
func (o *owners) conflict(claim *Claim) (kind, name, catalog string) {
	crons, sources := claim.names()
	for _, name := range crons {
		if catalog, taken := o.crons[name]; taken {
			return "DataImportCron", name, catalog
		}
	}
	for _, name := range sources {
		if catalog, taken := o.sources[name]; taken {
			return "DataSource", name, catalog
		}
	}
	return "", "", ""
}

// ownersOf gives each name to the oldest catalog that uses it, among those of a namespace. Other catalogs do not get the
// other names of the same entry either. which selects catalogs.
func ownersOf(all []Claims, namespace string, which func(*Claims) bool) *owners {
	o := &owners{crons: map[string]string{}, sources: map[string]string{}}
	var selected []*Claims
	for i := range all {
		if all[i].Namespace == namespace && which(&all[i]) {
			selected = append(selected, &all[i])
		}
	}
	slices.SortFunc(selected, older)
	for _, c := range selected {
		for i := range c.Names {
			o.add(c.Catalog, &c.Names[i])
		}
	}
	return o
}

// findOwners sets the problem of entries whose names belong to an older catalog.
func findOwners(in *Input, entries []*entry) {
	if len(in.Others) == 0 {
		return
	}
	own := &Claims{Catalog: in.Catalog.Name, Created: in.Catalog.CreationTimestamp}
	o := ownersOf(in.Others, NamespaceOf(in.Catalog), func(c *Claims) bool { return c.Catalog != own.Catalog && older(c, own) < 0 })
	for _, e := range entries {
		if e.problem != nil || e.disabled {
			continue
		}
		if kind, name, catalog := o.conflict(e.claim()); catalog != "" {
			e.problem = &problem{ReasonNameTaken, fmt.Sprintf("the catalog %q, which is older, uses the %s %q", catalog, kind, name)}
		}
	}
}

// withCommon is a catalog with the common images among its entries, if it has these.
func withCommon(catalog *v1alpha1.GoldenImageCatalog, common []v1alpha1.DataImportCronTemplate) *v1alpha1.GoldenImageCatalog {
	if !catalog.Spec.CommonImages || len(common) == 0 {
		return catalog
	}
	all := *catalog
	all.Spec.DataImportCronTemplates = WithCommon(catalog, common)
	return &all
}

// Conflicts returns the entries of a catalog whose names other catalogs use, older or not, and those whose names common images of
// the catalog use. A conflict of a common image is one of the field that selects these.
func Conflicts(catalog *v1alpha1.GoldenImageCatalog, common []v1alpha1.DataImportCronTemplate, others []Claims) field.ErrorList {
	var all field.ErrorList
	list := field.NewPath("spec", "dataImportCronTemplates")
	o := ownersOf(others, NamespaceOf(catalog), func(c *Claims) bool { return c.Catalog != catalog.Name })
	own := ownEntries(&Input{Catalog: catalog})
	for i, e := range ownEntries(&Input{Catalog: withCommon(catalog, common)}) {
		switch isCommon := i >= len(own); {
		case e.disabled:
			continue
		case e.problem != nil && e.problem.reason == ReasonDuplicate && !isCommon && own[i].problem == nil:
			all = append(all, field.Invalid(list.Index(i).Child("metadata", "name"), e.Name, e.problem.message))
			continue
		case e.problem != nil:
			continue
		}
		switch kind, name, owner := o.conflict(e.claim()); {
		case owner == "":
		case i >= len(own):
			all = append(all, field.Invalid(field.NewPath("spec", "commonImages"), true, fmt.Sprintf("the catalog %q uses the %s %q of the common image %q", owner, kind, name, e.Name)))
		case kind == "DataSource":
			all = append(all, field.Invalid(list.Index(i).Child("spec", "managedDataSource"), e.source(), fmt.Sprintf("the catalog %q uses the %s %q", owner, kind, name)))
		default:
			all = append(all, field.Invalid(list.Index(i).Child("metadata", "name"), e.Name, fmt.Sprintf("the catalog %q uses the %s %q", owner, kind, name)))
		}
	}
	return all
}
