package v1beta1

// Names on the objects of an import.
const (
	// LabelImportUID has the UID of the import that an object was created for.
	LabelImportUID = "template.virtward.io/import-uid"
	// AnnotationImport has the name of the import that a template was created for. Every user who can write the template can change
	// it: it says where to look, and decides nothing.
	AnnotationImport = "template.virtward.io/import"
	// FinalizerImport is on an import while it has objects that the garbage collector does not delete.
	FinalizerImport = "template.virtward.io/import"
)

// The reasons of the conditions of an import, beside those of a request.
const (
	// ReasonReadingSource: Virtward reads the descriptor of the appliance.
	ReasonReadingSource = "ReadingSource"
	// ReasonStaging: the file is copied into a volume.
	ReasonStaging = "Staging"
	// ReasonVerifying: Virtward reads the whole file and compares its digests.
	ReasonVerifying = "Verifying"
	// ReasonPreparing: the server of the disks is created.
	ReasonPreparing = "Preparing"
	// ReasonImporting: CDI imports the disks.
	ReasonImporting = "Importing"
	// ReasonNotImportable: the appliance cannot be imported. status.rejections says why.
	ReasonNotImportable = "NotImportable"
	// ReasonChoiceRequired: the descriptor has several virtual systems or networks, or a license. status.choices has them.
	ReasonChoiceRequired = "ChoiceRequired"
	// ReasonSourceUnavailable: the source could not be read. Virtward tries again until the deadline.
	ReasonSourceUnavailable = "SourceUnavailable"
	// ReasonSourceChanged: the file at the URL or in the claim is not the one that the import began with.
	ReasonSourceChanged = "SourceChanged"
	// ReasonVerificationFailed: the file does not have the digest that is
	// required, or the artifact no signature. Or a user changed the Service of
	// the server of an import or an export.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonCredentialsForbidden: Virtward may not read the Secret, the ConfigMap or the claim of the source.
	ReasonCredentialsForbidden = "CredentialsForbidden"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace does not permit the volumes.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonImportFailed: CDI could not import a disk.
	ReasonImportFailed = "ImportFailed"
)
