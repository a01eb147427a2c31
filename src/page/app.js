// The first module of the page: `/` loads it.
document.documentElement.dataset.app = "loaded";
