package events

import "strings"

// Setting is what a configuration's file says of a key, the last time it does; empty: nothing.
func (c *Config) Setting(key string) (value string) {
	for _, set := range c.GetSettings() {
		if strings.EqualFold(set.GetKey(), key) {
			value = set.GetValue()
		}
	}
	if value == "(null)" {
		return ""
	}
	return value
}

// Affinity says whether tasks are bound to CPUs: by TaskPlugin, where it is given.
func (c *Config) Affinity() bool {
	plugin := strings.ToLower(c.Setting("TaskPlugin"))
	return plugin == "" || strings.Contains(plugin, "affinity")
}
