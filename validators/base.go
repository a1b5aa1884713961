package validators

// Base is what holds for every hypervisor: the tables of all areas, in the order of the spec.
func Base() (Table, error) {
	return Join(
		objectRules(),
		conflictRules(),
		cpuRules(),
		memoryRules(),
		ioThreadRules(),
		diskRules(),
		volumeRules(),
		networkRules(),
		dnsRules(),
		machineRules(),
		firmwareRules(),
		featureRules(),
		launchSecurityRules(),
		deviceRules(),
		hostDeviceRules(),
		draRules(),
		cloudInitRules(),
		credentialRules(),
		probeRules(),
		lifecycleRules(),
		schedulingRules(),
		metadataRules(),
		virtualMachineRules(),
		liveUpdateRules(),
		dataVolumeTemplateRules(),
		goldenImageRules(),
		volumeRequestRules(),
		hotplugRules(),
		setRules(),
		instancetypeRules(),
		preferenceRules(),
		signRules(),
	)
}
