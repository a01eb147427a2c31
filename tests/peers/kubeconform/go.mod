module gpulens/tests/peers/kubeconform

go 1.26.0

require github.com/yannh/kubeconform v0.7.0
