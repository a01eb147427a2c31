"""Calls of KEDA's external scaler with grpcio: its messages, from the published field numbers of externalscaler.proto."""
import functools
import threading

from test_grpc import grpc

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    descriptor_pb2 = None

SERVICE = "/externalscaler.ExternalScaler/"


@functools.cache
def messages():
    file = descriptor_pb2.FileDescriptorProto(name="gpulens_externalscaler.proto", package="externalscaler", syntax="proto3")

    def message(name, *fields, parent=None):
        made = parent.nested_type.add(name=name) if parent else file.message_type.add(name=name)
        for number, (field, kind, label, of) in enumerate(fields, 1):
            made.field.add(name=field, number=number, type=kind, label=label, type_name=of)
        return made

    text, whole, double, boolean, other, one, many = 9, 3, 1, 8, 11, 1, 3
    ref = message("ScaledObjectRef", ("name", text, one, None), ("namespace", text, one, None),
                  ("scalerMetadata", other, many, ".externalscaler.ScaledObjectRef.ScalerMetadataEntry"))
    entry = message("ScalerMetadataEntry", ("key", text, one, None), ("value", text, one, None), parent=ref)
    entry.options.map_entry = True
    message("IsActiveResponse", ("result", boolean, one, None))
    message("MetricSpec", ("metricName", text, one, None), ("targetSize", whole, one, None), ("targetSizeFloat", double, one, None))
    message("GetMetricSpecResponse", ("metricSpecs", other, many, ".externalscaler.MetricSpec"))
    message("GetMetricsRequest", ("scaledObjectRef", other, one, ".externalscaler.ScaledObjectRef"), ("metricName", text, one, None))
    message("MetricValue", ("metricName", text, one, None), ("metricValue", whole, one, None), ("metricValueFloat", double, one, None))
    message("GetMetricsResponse", ("metricValues", other, many, ".externalscaler.MetricValue"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [each.name for each in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName("externalscaler." + name)) for name in names}


class Scaler:
    """A client as KEDA is one. Each call is a trigger's metadata; `number` and `active` raise grpc.RpcError."""

    def __init__(self, port, name_space="ml", credentials=None):
        at = f"127.0.0.1:{port}"
        self.channel = grpc.secure_channel(at, credentials) if credentials else grpc.insecure_channel(at)
        self.name_space = name_space

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def object(self, metadata):
        metadata = {"scalerAddress": "gpulens:9099", **{key: str(text) for key, text in metadata.items()}}
        return messages()["ScaledObjectRef"](name="chat", namespace=self.name_space, scalerMetadata=metadata)

    def call(self, method, request, answer):
        return self.channel.unary_unary(SERVICE + method, request_serializer=type(request).SerializeToString,
                                        response_deserializer=messages()[answer].FromString)(request, timeout=20)

    def spec(self, **metadata):
        spec, = self.call("GetMetricSpec", self.object(metadata), "GetMetricSpecResponse").metricSpecs
        return spec

    def number(self, **metadata):
        request = messages()["GetMetricsRequest"](scaledObjectRef=self.object(metadata), metricName=self.spec(**metadata).metricName)
        value, = self.call("GetMetrics", request, "GetMetricsResponse").metricValues
        return value.metricValueFloat if value.metricValueFloat > 0 else value.metricValue  # as KEDA reads it

    def active(self, **metadata):
        return self.call("IsActive", self.object(metadata), "IsActiveResponse").result

    def why(self, call, **metadata):
        """The code and text of a call that must fail."""
        try:
            answer = call(**metadata)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"it was answered: {answer}")

    def stream(self, **metadata):
        """A list that grows with what is pushed, and a function that ends the stream."""
        request = self.object(metadata)
        pushed = self.channel.unary_stream(SERVICE + "StreamIsActive", request_serializer=type(request).SerializeToString,
                                           response_deserializer=messages()["IsActiveResponse"].FromString)(request)
        seen = []

        def follow():
            try:
                for answer in pushed:
                    seen.append(answer.result)
            except grpc.RpcError as error:
                seen.append(error.code().name)

        threading.Thread(target=follow, daemon=True).start()
        return seen, pushed.cancel
