package v1beta1

// Names on the objects of an export.
const (
	// LabelExportUID has the UID of the export that an object was created for.
	LabelExportUID = "template.virtward.io/export-uid"
)

// The reasons of the conditions of an export, beside those of a request.
const (
	// ReasonMeasuring: the server reads the disks for the first time.
	ReasonMeasuring = "Measuring"
	// ReasonServing: the file can be downloaded.
	ReasonServing = "Serving"
	// ReasonTemplateNotFound: the template does not exist.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonNotExportable: the template cannot be exported.
	ReasonNotExportable = "NotExportable"
	// ReasonSourceNotPermitted: a volume is in a namespace that the export does not name.
	ReasonSourceNotPermitted = "SourceNotPermitted"
	// ReasonExportFailed: the server could not read a disk.
	ReasonExportFailed = "ExportFailed"
)
