# All images for both architectures (docs/containers.md):
#   docker buildx bake -f docker-bake.hcl                                         into the engine
#   REGISTRY=registry.example/you/ docker buildx bake -f docker-bake.hcl --push   to a registry
# The targets are those of docker-compose.yml's services, one for each image (tests/images.bats holds them
# together). Build stages cross-compile, so a foreign platform needs no emulation. Both platforms in one
# go need a builder that keeps both: the engine's containerd image store, or one made by
# `docker buildx create`. `make images` needs neither: it builds one platform after the other.

variable "REGISTRY" { # ends with a slash, or is empty
  default = ""
}
variable "VERSION" { # as in the file VERSION
  default = "0.1.0"
}
variable "REVISION" { # the commit; `make images` sets it
  default = ""
}
variable "PLATFORMS" {
  default = "linux/amd64,linux/arm64"
}
variable "TAG_SUFFIX" { # where a tag holds one platform: "-amd64"
  default = ""
}
variable "BASE_IMAGE" {
  default = "debian:trixie-slim"
}
variable "BASE_DIGEST" { # of the base image, if known: sha256:…
  default = ""
}
variable "BUILD_IMAGE" { # the same for the building machine, where BASE_IMAGE is of the target platform alone
  default = ""
}
variable "NPM_CONFIG_REGISTRY" {
  default = ""
}
variable "TURNMETER_CA_FILE" { # a site's own authority, for npm
  default = ""
}

group "default" {
  targets = ["image"]
}

target "image" {
  name = image
  matrix = {
    image = [
      "mockllm", "collector",
      "agent-c", "agent-c-min", "agent-c-dynamic", "agent-floor", "agent-rust",
      "agent-node", "agent-bun", "agent-deno",
    ]
  }
  context    = "."
  dockerfile = "Dockerfile"
  target     = image
  platforms  = split(",", PLATFORMS)
  secret     = TURNMETER_CA_FILE != "" ? ["id=site_ca,src=${TURNMETER_CA_FILE}"] : []
  args = {
    BASE_IMAGE          = BASE_IMAGE
    BUILD_IMAGE         = BUILD_IMAGE != "" ? BUILD_IMAGE : BASE_IMAGE
    NPM_CONFIG_REGISTRY = NPM_CONFIG_REGISTRY
  }
  tags = TAG_SUFFIX != "" ? ["${REGISTRY}turnmeter-${image}:${VERSION}${TAG_SUFFIX}"] : [
    "${REGISTRY}turnmeter-${image}:${VERSION}",
    "${REGISTRY}turnmeter-${image}:latest",
  ]
  labels = {
    "org.opencontainers.image.title"       = "turnmeter-${image}"
    "org.opencontainers.image.version"     = VERSION
    "org.opencontainers.image.revision"    = REVISION != "" ? REVISION : null
    "org.opencontainers.image.licenses"    = "MIT"
    "org.opencontainers.image.base.name"   = BASE_IMAGE
    "org.opencontainers.image.base.digest" = BASE_DIGEST != "" ? BASE_DIGEST : null
  }
}
