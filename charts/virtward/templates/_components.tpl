{{/*
What the objects of several components share. A component is a process of this chart, and its objects are named
virtward-COMPONENT. The first arguments of a template are the root context and the component, unless it says otherwise.
*/}}
{{- define "virtward.componentSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "virtward.ownLabels" -}}
{{- $root := index . 0 }}
{{- include "virtward.componentSelector" . }}
app.kubernetes.io/part-of: virtward
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The labels of a component, and the common ones, which overwrite none of them. */}}
{{- define "virtward.componentLabels" -}}
{{- mergeOverwrite (dict) (default (dict) (index . 0).Values.commonLabels) (include "virtward.ownLabels" . | fromYaml) | toYaml }}
{{- end }}

{{/* The labels of a component, and those of a value. The third argument is that value, which overwrites none of them. */}}
{{- define "virtward.labelsWith" -}}
{{- mergeOverwrite (dict) (default (dict) (index . 2)) (include "virtward.componentLabels" . | fromYaml) | toYaml }}
{{- end }}

{{/* The annotations of an object: its own, and the common ones, which overwrite none of them. Arguments: the root context, and its own. */}}
{{- define "virtward.annotations" -}}
{{- with mergeOverwrite (dict) (default (dict) (index . 0).Values.commonAnnotations) (index . 1) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The metadata of an object in the namespace of the release. Further arguments are the end of its name, and a dict with annotations of
its own.
*/}}
{{- define "virtward.metadata" -}}
{{- $end := "" }}
{{- range slice . 2 }}
{{- if kindIs "string" . }}{{ $end = . }}{{ end }}
{{- end }}
name: virtward-{{ index . 1 }}{{ $end }}
namespace: {{ (index . 0).Release.Namespace }}
{{- include "virtward.labelsAndAnnotations" . }}
{{- end }}

{{/* The metadata of an object without a namespace. A third argument is a dict with annotations of its own. */}}
{{- define "virtward.clusterMetadata" -}}
name: virtward-{{ index . 1 }}
{{- include "virtward.labelsAndAnnotations" . }}
{{- end }}

{{- define "virtward.labelsAndAnnotations" -}}
{{- $own := dict }}
{{- range slice . 2 }}
{{- if kindIs "map" . }}{{ $own = . }}{{ end }}
{{- end }}
labels:
  {{- include "virtward.componentLabels" . | nindent 2 }}
{{- include "virtward.annotations" (list (index . 0) $own) }}
{{- end }}

{{/* Accounts and their permissions. */}}

{{- define "virtward.subject" -}}
- kind: ServiceAccount
  name: virtward-{{ index . 1 }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{/* The account of a component, and the binding of its ClusterRole. */}}
{{- define "virtward.account" -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "virtward.metadata" (append . (include "virtward.podValues" . | fromYaml).serviceAccountAnnotations) | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "virtward.clusterMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: virtward-{{ index . 1 }}
subjects:
  {{- include "virtward.subject" . | nindent 2 }}
{{- end }}

{{/* The binding of a Role in the namespace of the release. A third argument is the end of its name. */}}
{{- define "virtward.roleBinding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "virtward.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: virtward-{{ index . 1 }}{{ if gt (len .) 2 }}{{ index . 2 }}{{ end }}
subjects:
  {{- include "virtward.subject" . | nindent 2 }}
{{- end }}

{{/* The rules of a Role for a process of which one replica leads. */}}
{{- define "virtward.leaderRules" -}}
# The lease of the leader. RBAC cannot limit creation to a name; it can limit updates.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [virtward-{{ index . 1 }}]
  verbs: [get, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* The bindings of the Roles that allow to read parameters of policies. */}}
{{- define "virtward.paramsBindings" -}}
{{- $root := index . 0 }}
{{- $self := . }}
{{- range $root.Values.policies.paramsNamespaces | default (list $root.Release.Namespace) }}
---
# ConfigMaps with parameters of policies, by the Role of the webhook.
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: virtward-{{ index $self 1 }}-params
  namespace: {{ . }}
  labels:
    {{- include "virtward.componentLabels" $self | nindent 4 }}
  {{- include "virtward.annotations" (list $root (dict)) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "virtward.name" $root }}-params
subjects:
  {{- include "virtward.subject" $self | nindent 2 }}
{{- end }}
{{- end }}

{{/* Certificates: the third argument is the Service. */}}

{{/*
The name of the Secret of a Service, without an argument for the component. Each provider has one of its own, so that a
change of the provider never reuses the Secret of the other.
*/}}
{{- define "virtward.certificateSecret" -}}
virtward-{{ index . 1 }}-{{ ternary "cert" "tls" (eq (index . 0).Values.certificates.provider "self") }}
{{- end }}

{{/* The Secret that the controller fills, or the Certificate of cert-manager. */}}
{{- define "virtward.certificate" -}}
{{- $root := index . 0 }}
{{- $service := index . 2 }}
{{- $secret := include "virtward.certificateSecret" (list $root $service) }}
---
{{- if eq $root.Values.certificates.provider "self" }}
# Empty: the controller fills it, and pods that mount it wait. An upgrade does not change its data, because the chart
# writes none.
apiVersion: v1
kind: Secret
metadata:
  name: {{ $secret }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.componentLabels" . | nindent 4 }}
  {{- include "virtward.annotations" (list $root (dict)) | nindent 2 }}
type: Opaque
{{- else }}
{{- $settings := $root.Values.certificates.certManager }}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: virtward-{{ $service }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.componentLabels" . | nindent 4 }}
  {{- include "virtward.annotations" (list $root (dict)) | nindent 2 }}
spec:
  secretName: {{ $secret }}
  duration: {{ $settings.duration }}
  renewBefore: {{ $settings.renewBefore }}
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  usages: [digital signature, server auth]
  dnsNames:
    - virtward-{{ $service }}.{{ $root.Release.Namespace }}.svc
    - virtward-{{ $service }}.{{ $root.Release.Namespace }}.svc.cluster.local
  issuerRef:
    {{- if $settings.issuerRef.name }}
    name: {{ $settings.issuerRef.name }}
    kind: {{ default "Issuer" $settings.issuerRef.kind }}
    group: {{ default "cert-manager.io" $settings.issuerRef.group }}
    {{- else }}
    name: {{ include "virtward.name" $root }}
    kind: Issuer
    group: cert-manager.io
    {{- end }}
{{- end }}
{{- end }}

{{/* A value, as YAML. Arguments: the root context, and the path of the value. */}}
{{- define "virtward.valueAt" -}}
{{- $value := (index . 0).Values }}
{{- range splitList "." (index . 1) }}
{{- $value = get (default (dict) $value) . }}
{{- end }}
{{- toYaml $value }}
{{- end }}

{{/* Pods. */}}

{{/*
The settings of the pods of a component, as YAML: those of the value pod, and those of the component, which override them. A
component that is not in components.yaml is a Job.
*/}}
{{- define "virtward.podValues" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $common := deepCopy $root.Values.pod }}
{{- $own := dict }}
{{- $deployed := false }}
{{- range $root.Files.Get "components.yaml" | fromYamlArray }}
{{- if eq .component $component }}
{{- $deployed = true }}
{{- $own = default (dict) (include "virtward.valueAt" (list $root (.section | default "webhook")) | fromYaml).pod }}
{{- end }}
{{- end }}
{{- if not $deployed }}
{{- $_ := unset $common "extraArgs" }}
{{- end }}
{{- $all := deepCopy $common }}
{{- range $field, $value := $own }}
{{- $_ := set $all $field $value }}
{{- end }}
{{- range $field := list "annotations" "labels" "serviceAccountAnnotations" }}
{{- $_ := set $all $field (mergeOverwrite (dict) (default (dict) (get $common $field)) (default (dict) (get $own $field))) }}
{{- end }}
{{- range $field := list "extraArgs" "extraVolumes" }}
{{- $_ := set $all $field (concat (default (list) (get $common $field)) (default (list) (get $own $field))) }}
{{- end }}
{{- $variables := default (list) $own.extraEnv }}
{{- $names := list }}
{{- range $variables }}
{{- $names = append $names .name }}
{{- end }}
{{- range default (list) $common.extraEnv }}
{{- if not (has .name $names) }}
{{- $variables = append $variables . }}
{{- end }}
{{- end }}
{{- $_ := set $all "extraEnv" $variables }}
{{- toYaml $all }}
{{- end }}

{{/* The metadata of a pod. A third argument has annotations of its own. */}}
{{- define "virtward.podMetadata" -}}
{{- $root := index . 0 }}
{{- $pod := include "virtward.podValues" . | fromYaml }}
{{- $annotations := dict "kubectl.kubernetes.io/default-container" "virtward" }}
{{- if gt (len .) 2 }}
{{- $annotations = merge $annotations (index . 2) }}
{{- end }}
labels:
  {{- include "virtward.labelsWith" (list $root (index . 1) $pod.labels) | nindent 2 }}
annotations:
  {{- mergeOverwrite (dict) (default (dict) $root.Values.commonAnnotations) $annotations $pod.annotations | toYaml | nindent 2 }}
{{- end }}

{{/*
The account, the security and the place of a pod. Further arguments: "fsGroup" lets its user read files of Secrets, and "replicas"
spreads its replicas.
*/}}
{{- define "virtward.pod" -}}
{{- $root := index . 0 }}
{{- $pod := include "virtward.podValues" . | fromYaml }}
{{- $self := list $root (index . 1) }}
{{- $group := or (has "fsGroup" .) $root.Values.metrics.secure.certificateSecret $root.Values.extraCA.secret }}
serviceAccountName: virtward-{{ index . 1 }}
automountServiceAccountToken: true
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with $pod.runAsUser }}
  runAsUser: {{ int64 . }}
  runAsGroup: {{ int64 . }}
  {{- if $group }}
  fsGroup: {{ int64 . }}
  {{- end }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- if $pod.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with $pod.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" (default false $pod.hostNetwork)) }}
dnsPolicy: {{ . }}
{{- end }}
{{- range $field := list "dnsConfig" "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with get $pod $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- if has "replicas" . }}
topologySpreadConstraints:
  {{- range $pod.topologySpreadConstraints }}
  - {{- merge (dict) . (dict "labelSelector" (dict "matchLabels" (include "virtward.componentSelector" $self | fromYaml))) | toYaml | nindent 4 }}
  {{- else }}
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "virtward.componentSelector" $self | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The name, the image and the security of the container. Arguments: the root context, and the value of the image. */}}
{{- define "virtward.container" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
name: virtward
image: {{ printf "%s%s" (include "virtward.repository" .) (ternary (printf "@%s" $image.digest) (printf ":%s" (default $root.Chart.AppVersion $image.tag)) (not (empty $image.digest))) | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/*
The repository of an image, with the registry of global.imageRegistry. The first part of a repository is a host if it has a dot or a
colon, or is localhost.
*/}}
{{- define "virtward.repository" -}}
{{- $repository := (index . 1).repository }}
{{- with dig "imageRegistry" "" (default (dict) (index . 0).Values.global) }}
{{- $host := first (splitList "/" $repository) }}
{{- if and (contains "/" $repository) (or (contains "." $host) (contains ":" $host) (eq $host "localhost")) }}
{{- $repository = trimPrefix (printf "%s/" $host) $repository }}
{{- end }}
{{- $repository = printf "%s/%s" . $repository }}
{{- end }}
{{- $repository }}
{{- end }}

{{/* The arguments of the program: those of the chart, as a third argument with a YAML list, and those of the value extraArgs. */}}
{{- define "virtward.args" -}}
{{- $args := index . 2 | fromYamlArray }}
{{- $flags := list }}
{{- range $args }}
{{- $flags = append $flags (first (splitList "=" .)) }}
{{- end }}
{{- $component := index . 1 }}
{{- range (include "virtward.podValues" . | fromYaml).extraArgs }}
{{- $flag := first (splitList "=" .) }}
{{- if has $flag $flags }}
{{- fail (printf "extraArgs of virtward-%s: the chart sets %s itself" $component $flag) }}
{{- end }}
{{- $args = append $args . }}
{{- end }}
{{- toYaml $args }}
{{- end }}

{{/* Returns "true" for the components that connect to servers outside of the cluster, or nothing. */}}
{{- define "virtward.outgoing" -}}
{{- if has (index . 1) (list "images" "virtualimages" "templateimports") }}true{{ end }}
{{- end }}

{{/* The variables of the environment that a component has of the chart. */}}
{{- define "virtward.ownEnv" -}}
{{- $values := (index . 0).Values }}
{{- include "virtward.namespaceVariable" . }}
{{ include "virtward.memoryVariable" . }}
{{- if include "virtward.outgoing" . }}
{{- $proxy := $values.proxy }}
{{- with $proxy.httpProxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with $proxy.httpsProxy }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- if or $proxy.httpProxy $proxy.httpsProxy }}
- name: NO_PROXY
  value: {{ append (list "$(KUBERNETES_SERVICE_HOST)" ".svc" ".cluster.local" "localhost" "127.0.0.1") (default "" $proxy.noProxy) | compact | join "," | quote }}
{{- end }}
{{- if or $values.extraCA.configMap $values.extraCA.secret }}
# Beside the authorities of the image, which are in a file.
- name: SSL_CERT_DIR
  value: /var/run/virtward/authorities
{{- end }}
{{- end }}
{{- end }}

{{/* The variables of the environment of a component: its own, and those of the value extraEnv. */}}
{{- define "virtward.env" -}}
{{- $own := include "virtward.ownEnv" . }}
{{- $own }}
{{- with (include "virtward.podValues" . | fromYaml).extraEnv }}
{{- $names := list }}
{{- range fromYamlArray $own }}
{{- $names = append $names .name }}
{{- end }}
{{- range . }}
{{- if has .name $names }}
{{- fail (printf "extraEnv of virtward-%s: the chart sets %s itself" (index $ 1) .name) }}
{{- end }}
{{- end }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The volumes of a component, as a YAML list: those of its process, as a third argument, those of several processes, and extraVolumes. */}}
{{- define "virtward.volumeList" -}}
{{- $values := (index . 0).Values }}
{{- with index . 2 | trim }}
{{ . }}
{{- end }}
{{- if include "virtward.outgoing" . }}
{{- if and $values.extraCA.configMap $values.extraCA.secret }}
{{- fail "extraCA.configMap and extraCA.secret are both set: set one of them" }}
{{- end }}
{{- with $values.extraCA.configMap }}
- name: authorities
  mountPath: /var/run/virtward/authorities
  configMap:
    name: {{ . }}
{{- end }}
{{- with $values.extraCA.secret }}
- name: authorities
  mountPath: /var/run/virtward/authorities
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- with $values.metrics.secure }}
{{- if and .enabled .certificateSecret (not (has (index $ 1) (list "apiserver" "library" "uninstall" "node-labeller" "node-tuner"))) }}
- name: metrics-certificate
  mountPath: /var/run/virtward/metrics
  secret:
    secretName: {{ .certificateSecret }}
    defaultMode: 0440
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- end }}
{{- end }}
{{- with (include "virtward.podValues" . | fromYaml).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Variables of the environment. No arguments. */}}
{{- define "virtward.namespaceVariable" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{- define "virtward.memoryVariable" -}}
# The garbage collector works harder above 85 percent of this limit, before the kernel kills the process.
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: virtward
      resource: limits.memory
{{- end }}

{{/* The probes of the port health. The argument is the period of the one for readiness, in seconds. */}}
{{- define "virtward.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: {{ . }}
  failureThreshold: 2
{{- end }}

{{/* The mounts and the volumes. The argument is a YAML list of volumes, each with its mountPath. */}}
{{- define "virtward.mounts" -}}
{{- with fromYamlArray . }}
volumeMounts:
  {{- range . }}
  - name: {{ .name }}
    mountPath: {{ .mountPath }}
    readOnly: true
  {{- end }}
{{- end }}
{{- end }}

{{- define "virtward.volumes" -}}
{{- with fromYamlArray . }}
volumes:
  {{- range . }}
  - {{- omit . "mountPath" | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Flags that several processes have. The argument is the root context. */}}

{{- define "virtward.logFlags" -}}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- end }}

{{/* The flags of the log and of the metrics. */}}
{{- define "virtward.commonFlags" -}}
{{- include "virtward.logFlags" . }}
{{- with .Values.metrics.secure }}
{{- if .enabled }}
- --metrics-secure
{{- if .certificateSecret }}
- --metrics-cert-dir=/var/run/virtward/metrics
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "virtward.factsFlags" -}}
{{- with .Values.facts.rolloutStrategy -}}
- --rollout-strategy={{ . }}
{{ end -}}
- --mshv-cpu-model={{ .Values.facts.mshvCPUModel }}
{{- end }}

{{- define "virtward.policyFlags" -}}
{{- range .Values.policies.paramsNamespaces | default (list .Release.Namespace) }}
- --params-namespace={{ . }}
{{- end }}
{{- include "virtward.referenceFlags" . }}
{{- end }}

{{- define "virtward.referenceFlags" -}}
{{- range .Values.policies.references }}
- --policy-reference={{ . }}
{{- end }}
{{- end }}

{{- define "virtward.exemptFlags" -}}
{{- if .Values.webhook.exemptByLabel }}
- --exempt-by-label
{{- end }}
{{- range .Values.webhook.exemptNamespaces }}
- --exempt-namespace={{ . }}
{{- end }}
{{- end }}

{{/* The flag for VirtualMachinePolicyExceptions. */}}
{{- define "virtward.exceptionFlag" -}}
{{- if .Values.policies.exceptions.enabled }}
- --policy-exception-max-days={{ int .Values.policies.exceptions.maxDays }}
{{- end }}
{{- end }}

{{/* The components with Deployments that the values install, as a YAML list. The argument is the root context. */}}
{{- define "virtward.components" -}}
{{- range .Files.Get "components.yaml" | fromYamlArray }}
{{- $enabled := "true" }}
{{- if eq .switch "templates.mode" }}
{{- $enabled = include "virtward.templatesManaged" $ }}
{{- else if .switch }}
{{- $enabled = include "virtward.valueAt" (list $ .switch) }}
{{- end }}
{{- if eq $enabled "true" }}
- {{ .component }}
{{- end }}
{{- end }}
{{- end }}

{{/* A quantity in MiB, as a number. */}}
{{- define "virtward.mebibytes" -}}
{{- $suffix := regexFind "([KMGTPE]i|[numkMGTPE])$" (toString .) }}
{{- $number := trimSuffix $suffix (toString .) | trimPrefix "+" | float64 }}
{{- $factors := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
  "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 }}
{{- divf (mulf $number (get $factors $suffix | float64)) 1048576 }}
{{- end }}

{{/*
The Deployment of a component that is a command of the server, with its metrics, its disruption budget and its network
policy. Arguments, in a dict: root; component; values, with the replicas, the ports and the resources; flags. Those of some
components, as YAML lists: ports, volumes, and ingress, which clients reach it beside Prometheus. Also annotations, a dict, and
fsGroup as for virtward.pod.
*/}}
{{- define "virtward.process" -}}
{{- $self := list .root .component }}
{{- $replicas := int (dig "replicas" 1 .values) }}
{{- $volumes := include "virtward.volumeList" (append $self (default "" .volumes)) }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "virtward.metadata" $self | nindent 2 }}
spec:
  replicas: {{ $replicas }}
  selector:
    matchLabels:
      {{- include "virtward.componentSelector" $self | nindent 6 }}
  template:
    metadata:
      {{- include "virtward.podMetadata" (append $self (default (dict) .annotations)) | nindent 6 }}
    spec:
      {{- include "virtward.pod" (concat $self (list "replicas" (ternary "fsGroup" "" (default false .fsGroup)))) | nindent 6 }}
      containers:
        - {{- include "virtward.container" (list .root .root.Values.image) | nindent 10 }}
          args:
            {{- include "virtward.args" (append $self (include "virtward.process.args" .)) | nindent 12 }}
          env:
            {{- include "virtward.env" $self | nindent 12 }}
          ports:
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
            - name: metrics
              containerPort: {{ int .values.metricsPort }}
            - name: health
              containerPort: {{ int .values.healthPort }}
          {{- include "virtward.probes" 5 | nindent 10 }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          {{- include "virtward.mounts" $volumes | nindent 10 }}
      {{- include "virtward.volumes" $volumes | nindent 6 }}
{{ include "virtward.metrics" (append $self .values.metricsPort) }}
{{ include "virtward.budget" (append $self $replicas) }}
{{ include "virtward.networkPolicy" (append $self (printf "%s\n%s" (default "" .ingress) (include "virtward.metricsIngress" .root))) }}
{{- end }}

{{- define "virtward.process.args" -}}
- {{ .component }}
- --health-address=:{{ int .values.healthPort }}
- --metrics-address=:{{ int .values.metricsPort }}
- --namespace=$(POD_NAMESPACE)
{{- with trim .flags }}
{{ . }}
{{- end }}
{{ include "virtward.commonFlags" .root }}
{{- end }}

{{/* What belongs to a process. */}}

{{/* The Service and the ServiceMonitor of the metrics. The third argument is their port. */}}
{{- define "virtward.metrics" -}}
{{- $root := index . 0 }}
---
apiVersion: v1
kind: Service
metadata:
  name: virtward-{{ index . 1 }}-metrics
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.componentLabels" . | nindent 4 }}
    virtward.io/service: metrics
  {{- include "virtward.annotations" (list $root (dict)) | nindent 2 }}
spec:
  selector:
    {{- include "virtward.componentSelector" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ int (index . 2) }}
      targetPort: metrics
{{- with $root.Values.metrics.serviceMonitor }}
{{- if .enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: virtward-{{ index $ 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.labelsWith" (list $root (index $ 1) .labels) | nindent 4 }}
  {{- include "virtward.annotations" (list $root (dict)) | nindent 2 }}
spec:
  selector:
    matchLabels:
      {{- include "virtward.componentSelector" $ | nindent 6 }}
      virtward.io/service: metrics
  endpoints:
    - port: metrics
      path: /metrics
      interval: {{ .interval }}
      {{- with $root.Values.metrics.secure }}
      {{- if .enabled }}
      scheme: https
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
      tlsConfig:
        {{- if .certificateSecret }}
        serverName: virtward-{{ index $ 1 }}-metrics.{{ $root.Release.Namespace }}.svc
        ca:
          secret:
            name: {{ .certificateSecret }}
            key: ca.crt
        {{- else }}
        insecureSkipVerify: true
        {{- end }}
      {{- end }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The disruption budget. The third argument is the number of replicas. */}}
{{- define "virtward.budget" -}}
{{- $budget := default (dict) (include "virtward.podValues" . | fromYaml).disruptionBudget }}
{{- if and (gt (int (index . 2)) 1) (dig "enabled" true $budget) }}
{{- $limit := dict }}
{{- range $field := list "maxUnavailable" "minAvailable" }}
{{- $value := get $budget $field }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
{{- $_ := set $limit $field $value }}
{{- end }}
{{- end }}
{{- if eq (len $limit) 0 }}
{{- $limit = dict "maxUnavailable" 1 }}
{{- end }}
{{- if gt (len $limit) 1 }}
{{- fail (printf "disruptionBudget of virtward-%s: set either maxUnavailable or minAvailable, and the other to null" (index . 1)) }}
{{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "virtward.metadata" (list (index . 0) (index . 1)) | nindent 2 }}
spec:
  {{- toYaml $limit | nindent 2 }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "virtward.componentSelector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* The network policy. The third argument is the YAML list of what is allowed to reach the process; without one, nothing is. */}}
{{- define "virtward.networkPolicy" -}}
{{- $policy := (index . 0).Values.networkPolicy }}
{{- if $policy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "virtward.metadata" (list (index . 0) (index . 1)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "virtward.componentSelector" . | nindent 6 }}
  policyTypes: [Ingress{{ if $policy.egress.enabled }}, Egress{{ end }}]
  {{- with trim (index . 2) }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
  {{- if $policy.egress.enabled }}
  egress:
    {{- include "virtward.egress" . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where a process connects to. */}}
{{- define "virtward.egress" -}}
{{- $root := index . 0 }}
{{- $egress := $root.Values.networkPolicy.egress }}
# The API servers.
- ports:
    {{- range $egress.apiServerPorts }}
    - port: {{ int . }}
      protocol: TCP
    {{- end }}
  {{- with $egress.apiServerCIDRs | default $root.Values.networkPolicy.apiServerCIDRs }}
  to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
  {{- end }}
# The DNS of the cluster.
- ports:
    {{- range $port := list 53 5353 }}
    {{- range $protocol := list "UDP" "TCP" }}
    - port: {{ $port }}
      protocol: {{ $protocol }}
    {{- end }}
    {{- end }}
  to:
    {{- with $egress.dns }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - namespaceSelector:
        matchExpressions:
          - key: kubernetes.io/metadata.name
            operator: In
            values: [kube-system, openshift-dns]
    {{- end }}
{{- if eq (index . 1) "controller" }}
# The replicas of the webhook, which report how often policies fail.
- ports:
    - port: policy-counts
      protocol: TCP
  to:
    - podSelector:
        matchLabels:
          {{- include "virtward.componentSelector" (list $root "webhook") | nindent 10 }}
{{- end }}
{{- with get (dict "templateexports" "export-uid" "templateimports" "import-uid") (index . 1) }}
# The pods that serve exports or imports, in the namespaces of these.
- ports:
    - port: 8443
      protocol: TCP
  to:
    - namespaceSelector: {}
      podSelector:
        matchExpressions:
          - key: template.virtward.io/{{ . }}
            operator: Exists
{{- end }}
{{- if eq (index . 1) "apiserver" }}
# The webhooks of the cluster, which also validate virtual machines that are created from templates. Their addresses are not known.
- {}
{{- end }}
{{- if include "virtward.outgoing" . }}
# The servers of images.
{{- with $egress.sources }}
{{ toYaml . }}
{{- else }}
- {}
{{- end }}
{{- end }}
{{- end }}

{{/* Namespaces that can read metrics, of which there is a value. The argument is the root context. */}}
{{- define "virtward.metricsNamespaces" -}}
{{- with .Values.networkPolicy.metricsNamespaces }}
- namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values:
          {{- toYaml . | nindent 10 }}
{{- end }}
{{- end }}

{{- define "virtward.metricsIngress" -}}
{{- with include "virtward.metricsNamespaces" . }}
- ports:
    - port: metrics
      protocol: TCP
  from:
    {{- . | nindent 4 }}
{{- end }}
{{- end }}

{{/* The addresses of API servers, of which there is a value. The argument is the root context. */}}
{{- define "virtward.apiServerAddresses" -}}
{{- range .Values.networkPolicy.apiServerCIDRs }}
- ipBlock:
    cidr: {{ . | quote }}
{{- end }}
{{- end }}
