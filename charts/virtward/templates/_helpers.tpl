{{/*
Names are fixed and do not depend on the release: Virtward is installed once in a cluster, and the commands to find it
or to switch it off are the same in every cluster.
*/}}
{{- define "virtward.name" -}}virtward-webhook{{- end }}

{{/* Sorts before virt-api-mutator: the API server calls mutating webhooks in the order of these names. */}}
{{- define "virtward.mutator" -}}mutate.virtward.io{{- end }}

{{- define "virtward.validator" -}}validate.virtward.io{{- end }}

{{/* Exempt namespaces, selected by a label that only the API server can set, and by one that a guard protects. */}}
{{- define "virtward.exempt" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- concat (list "kube-system" .Release.Namespace) .Values.webhook.exemptNamespaces | uniq | toYaml | nindent 6 }}
{{- if .Values.webhook.exemptByLabel }}
{{- if not .Values.guards.namespaces.enabled }}
{{- fail "guards.namespaces.enabled is false and webhook.exemptByLabel is true: without the guard, every user who may label a namespace exempts it" }}
{{- end }}
  - key: virtward.io/exempt
    operator: NotIn
    values: ["true"]
{{- end }}
{{- end }}

{{/* Fields that all validating webhooks share. */}}
{{- define "virtward.validatingWebhook" -}}
admissionReviewVersions: [v1]
clientConfig:
  # The provider of the certificates writes the caBundle and, with provider self, the path. An upgrade keeps them.
  service:
    name: {{ include "virtward.name" . }}
    namespace: {{ .Release.Namespace }}
    {{- with include "virtward.path" (list . "Validating" (include "virtward.validator" .) "/validate") }}
    path: {{ . }}
    {{- end }}
    port: {{ int .Values.webhook.servicePort }}
matchPolicy: Equivalent
failurePolicy: {{ .Values.checks.failurePolicy }}
timeoutSeconds: {{ int .Values.checks.timeoutSeconds }}
sideEffects: None
{{- end }}

{{/*
The accepted path tokens with provider cert-manager, one per line: those of the value, or the one created at the
installation. A token is created once for each rendering, so that all templates agree.
*/}}
{{- define "virtward.pathTokens" -}}
{{- if .Values.webhook.pathTokens }}
{{- join "\n" .Values.webhook.pathTokens }}
{{- else }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace (printf "%s-paths" (include "virtward.name" .)) }}
{{- if dig "data" "tokens" "" ($secret | default dict) }}
{{- $secret.data.tokens | b64dec | trim }}
{{- else }}
{{- if not (hasKey .Values "madePathToken") }}
{{- $_ := set .Values "madePathToken" (randAlphaNum 32 | lower) }}
{{- end }}
{{- .Values.madePathToken }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The path of a webhook. Arguments: the root context, the kind of its configuration, its name, and the path without a
token. It is empty if the controller writes it together with the CA bundle, so that an upgrade keeps it. A path without
a token is from an older release: it stays until the controller replaces it.
*/}}
{{- define "virtward.path" -}}
{{- $root := index . 0 }}
{{- if ne $root.Values.certificates.provider "self" }}
{{- index . 3 }}/{{ include "virtward.pathTokens" $root | splitList "\n" | first }}
{{- else }}
{{- $there := lookup "admissionregistration.k8s.io/v1" (printf "%sWebhookConfiguration" (index . 1)) "" (index . 2) | default dict }}
{{- $hooks := dig "webhooks" (list) $there }}
{{- if $hooks }}
{{- if eq (dig "clientConfig" "service" "path" "" (first $hooks)) "/validate" "/mutate" }}{{ index . 3 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The labels of the objects that belong to no other component. */}}
{{- define "virtward.labels" -}}
{{- include "virtward.componentLabels" (list . "webhook") }}
{{- end }}

{{/*
The rules of ClusterRoles for the objects that policies read through references, by the plural names in the value. The class
of a volume is read from its claim or its DataVolume.
*/}}
{{- define "virtward.referenceRules" -}}
{{- $groups := dict "networkattachmentdefinitions" "k8s.cni.cncf.io" "persistentvolumeclaims" "" "datavolumes" "cdi.kubevirt.io" "datasources" "cdi.kubevirt.io" "storageclasses" "storage.k8s.io" "configmaps" "" }}
{{- $kinds := .Values.policies.references }}
{{- if has "storageclasses" $kinds }}
{{- $kinds = concat $kinds (list "persistentvolumeclaims" "datavolumes") | uniq }}
{{- end }}
{{- range $kinds }}
- apiGroups: [{{ get $groups . | quote }}]
  resources: [{{ if eq . "networkattachmentdefinitions" }}network-attachment-definitions{{ else }}{{ . }}{{ end }}]
  verbs: [get]
{{- end }}
{{- end }}

{{/*
Returns "true" if the policies of the library can be created, or nothing. The API server accepts a policy after it has
the kind, and calls the webhook for it. The first release installs both, so a Job creates the policies of that release.
Without a cluster, as in helm template, the API versions of the command line apply.
*/}}
{{- define "virtward.libraryReady" -}}
{{- if .Capabilities.APIVersions.Has "policy.virtward.io/v1alpha1/VirtualMachinePolicy" }}
{{- if or .Release.IsUpgrade (not (lookup "v1" "Namespace" "" "kube-system")) }}true{{ end }}
{{- end }}
{{- end }}

{{/*
The objects of VM templates that Helm does not manage, in general because virt-operator does. Two writers of a definition
or of an APIService would revert each other.
*/}}
{{- define "virtward.templatesForeign" -}}
{{- if not (hasKey .Values "foundTemplates") }}
{{- $found := list }}
{{- range $kind, $names := dict
  "CustomResourceDefinition" (list "virtualmachinetemplates.template.kubevirt.io" "virtualmachinetemplaterequests.template.kubevirt.io")
  "APIService" (list "v1alpha1.subresources.template.kubevirt.io" "v1beta1.subresources.template.kubevirt.io") }}
{{- range $names }}
{{- $group := ternary "apiregistration.k8s.io/v1" "apiextensions.k8s.io/v1" (eq $kind "APIService") }}
{{- with lookup $group $kind "" . }}
{{- $manager := dig "metadata" "labels" "app.kubernetes.io/managed-by" "" . }}
{{- if ne $manager "Helm" }}
{{- $found = append $found (printf "%s %s (managed by %s)" $kind .metadata.name (default "unknown" $manager)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set .Values "foundTemplates" (join ", " $found) }}
{{- end }}
{{- .Values.foundTemplates }}
{{- end }}

{{/* Returns "true" if Virtward installs and serves VM templates, or nothing. */}}
{{- define "virtward.templatesManaged" -}}
{{- $foreign := include "virtward.templatesForeign" . }}
{{- if and (eq .Values.templates.mode "manage") $foreign }}
{{- fail (printf "templates.mode is manage, but another component manages the objects of VM templates: %s. To transfer them, follow the section \"Who serves VM templates\" of docs/template-api.md; the last step sets configuration.virtTemplateDeployment.enabled: false in the KubeVirt resource. Or set templates.mode to observe." $foreign) }}
{{- end }}
{{- $managed := and (ne .Values.templates.mode "observe") (not $foreign) }}
{{- if and .Values.templates.requireApproval (not $managed) }}
{{- fail (printf "templates.requireApproval needs Virtward to serve VM templates, but %s. Virtward can enforce approval only for its own API." (ternary "templates.mode is observe" (printf "another component manages them: %s" $foreign) (eq .Values.templates.mode "observe"))) }}
{{- end }}
{{- if $managed }}true{{ end }}
{{- end }}

{{/*
The namespace of KubeVirt's accounts: that of the value, else of the KubeVirt resource, else kubevirt.
*/}}
{{- define "virtward.kubevirtNamespace" -}}
{{- $namespace := .Values.guards.templates.kubevirtNamespace }}
{{- if and (not $namespace) (.Capabilities.APIVersions.Has "kubevirt.io/v1/KubeVirt") }}
{{- range dig "items" (list) (lookup "kubevirt.io/v1" "KubeVirt" "" "" | default dict) }}
{{- $namespace = .metadata.namespace }}
{{- end }}
{{- end }}
{{- default "kubevirt" $namespace }}
{{- end }}

{{/* The rule for VirtualMachinePolicyExceptions, and for the guard that checks their authors. */}}
{{- define "virtward.exceptionRules" -}}
{{- if .Values.policies.exceptions.enabled }}
# Exceptions of policies. They are active while the guard that checks their authors is.
- apiGroups: [policy.virtward.io]
  resources: [virtualmachinepolicyexceptions]
  verbs: [list, watch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  resourceNames: [virtward-policy-exceptions]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{/*
The rule for the guards of objects for whose authors a process acts. It acts only if they have been active since the object
was created. The arguments are the names of the guards.
*/}}
{{- define "virtward.guardRules" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  resourceNames: [{{ join ", " . }}]
  verbs: [get]
{{- end }}

{{/* Returns "true" if CDI copies images from Virtward, or nothing. */}}
{{- define "virtward.copiesServer" -}}
{{- if and .Values.virtualImages.enabled .Values.virtualImages.copies.enabled }}true{{ end }}
{{- end }}
