# syntax=docker/dockerfile:1
# Reproducible: the same commit and the same Go make the same bytes, on any machine
# and for any platform (make reproduce shows it).
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION
RUN CGO_ENABLED=0 GOTOOLCHAIN=local GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -tags disable_grpc_modules,grpcnotrace -ldflags "-s -w -X main.version=$VERSION" -o /out/etcd-ferry ./cmd/etcd-ferry
RUN echo 'etcd-ferry:x:65532:65532:etcd-ferry:/:/sbin/nologin' > /out/passwd && echo 'etcd-ferry:x:65532:' > /out/group

FROM scratch
ARG VERSION
LABEL org.opencontainers.image.title="etcd-ferry" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/etcd-ferry/etcd-ferry" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/passwd /out/group /etc/
COPY --from=build /out/etcd-ferry /etcd-ferry
USER 65532:65532
ENTRYPOINT ["/etcd-ferry"]
