{{- define "virtward.images" -}}virtward-images{{- end }}

{{- define "virtward.imagesSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: images
{{- end }}

{{- define "virtward.imagesLabels" -}}
{{ include "virtward.imagesSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}
