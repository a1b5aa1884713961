package sample

import "github.com/virtward/virtward/domain"

// NewConverter makes the domains of sample on an architecture: those of all hypervisors, with a channel to the monitor.
func NewConverter(architecture string) domain.Converter {
	c := domain.NewBaseConverter(architecture)
	c.ExtraConfigurators = append(c.ExtraConfigurators, monitorChannel)
	return c
}

// monitorChannel follows the steps of all hypervisors.
func monitorChannel(b *domain.Build) error {
	b.Domain.Devices.Channels = append(b.Domain.Devices.Channels, domain.DomainChannel{
		Type: "unix", Target: &domain.DomainChannelTarget{Type: "virtio", Name: "org.sample.monitor"},
	})
	return nil
}
