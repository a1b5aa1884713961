{{/*
Names are fixed and do not depend on the release: Virtward is installed once in a cluster, and the commands to find it
or to switch it off are the same in every cluster.
*/}}
{{- define "virtward.name" -}}virtward-webhook{{- end }}

{{/* Sorts before virt-api-mutator: the API server calls mutating webhooks in the order of these names. */}}
{{- define "virtward.mutator" -}}mutate.virtward.io{{- end }}

{{- define "virtward.validator" -}}validate.virtward.io{{- end }}

{{/* Exempt namespaces, selected by a label that only the API server can set. */}}
{{- define "virtward.exempt" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- concat (list "kube-system" .Release.Namespace) .Values.webhook.exemptNamespaces | uniq | toYaml | nindent 6 }}
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
{{- if eq (dig "clientConfig" "service" "path" "" (first $hooks)) (index . 3) }}{{ index . 3 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* One Secret for each provider, so that a change of the provider never reuses the Secret of the other. */}}
{{- define "virtward.secret" -}}
{{- if eq .Values.certificates.provider "self" }}virtward-webhook-cert{{ else }}virtward-webhook-tls{{ end }}
{{- end }}

{{- define "virtward.selector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: webhook
{{- end }}

{{- define "virtward.labels" -}}
{{ include "virtward.selector" . }}
app.kubernetes.io/part-of: virtward
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
Returns "true" if the policies of the library can be created, or nothing. The API server accepts a policy after it has
the kind, and calls the webhook for it. The first release installs both, so the second release creates the policies.
Without a cluster, as in helm template, the API versions of the command line apply.
*/}}
{{- define "virtward.libraryReady" -}}
{{- if .Capabilities.APIVersions.Has "policy.virtward.io/v1alpha1/VirtualMachinePolicy" }}
{{- if or .Release.IsUpgrade (not (lookup "v1" "Namespace" "" "kube-system")) }}true{{ end }}
{{- end }}
{{- end }}

{{- define "virtward.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}
