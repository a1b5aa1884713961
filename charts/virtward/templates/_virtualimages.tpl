{{- define "virtward.virtualImages" -}}virtward-virtualimages{{- end }}

{{- define "virtward.virtualImagesSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: virtualimages
{{- end }}

{{- define "virtward.virtualImagesLabels" -}}
{{ include "virtward.virtualImagesSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}
