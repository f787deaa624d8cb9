# nix-build packaging/nix: in a clone, from its files.
#   nix-build packaging/nix --arg withMpi true      with the plug-in for Open MPI
{ pkgs ? import <nixpkgs> { }, withMpi ? false }:
pkgs.stdenv.mkDerivation {
  pname = "trident";
  version = builtins.head (builtins.match ".*\nVERSION := ([0-9.]+)\n.*" (builtins.readFile ../../Makefile));
  src = pkgs.lib.cleanSource ../..;
  nativeBuildInputs = [ pkgs.pkg-config ];
  # The headers of a program that uses the static library.
  propagatedBuildInputs = [ pkgs.utf8proc ];
  buildInputs = with pkgs; [ libyaml lz4 xxHash zlib zstd ] ++ lib.optional withMpi openmpi;
  enableParallelBuilding = true;
  postPatch = "patchShebangs tools";
  makeFlags = [ "CC=cc" "PREFIX=${placeholder "out"}" "NVCC=" ];
  doInstallCheck = true;
  installCheckPhase = "$out/bin/trident doctor";
  meta = {
    description = "Trains and serves classifiers of texts and numbers";
    license = pkgs.lib.licenses.asl20;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "trident";
  };
}
