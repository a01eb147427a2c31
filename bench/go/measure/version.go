package measure

import "runtime/debug"

// VersionOf is the version of a module that this program was built with.
func VersionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "unknown"
}
