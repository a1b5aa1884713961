package controlplane

import "os"

// EndProcesses kills the processes of Deployments, and removes their volumes and logs. The API server and what it has stay. It is
// not for a control plane with Options.Supervise.
func (c *ControlPlane) EndProcesses() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.others) - 1; i >= 0; i-- {
		c.others[i].end()
		if v, isProcess := c.others[i].(*Virtward); isProcess {
			if err := os.RemoveAll(v.Log()); err != nil {
				return err
			}
		}
	}
	c.others, c.controller, c.apiServerOfTemplates = nil, nil, nil
	return os.RemoveAll(c.home.file("volumes"))
}
