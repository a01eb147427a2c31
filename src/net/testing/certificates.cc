#include "net/testing/certificates.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

#include "net/message/address.h"

namespace gpulens::testing {
namespace {

std::string Text(BIO* bio) {
  char* data = nullptr;
  long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  CHECK(extension && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(const std::string& name, EVP_PKEY* key) {
  static std::atomic<long> serial{1000};
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate, key);
  return certificate;
}

Pem Finish(X509* certificate, EVP_PKEY* key, EVP_PKEY* signer) {
  CHECK(X509_sign(certificate, signer, EVP_sha256()) > 0);
  BIO* certificate_bio = BIO_new(BIO_s_mem());
  BIO* key_bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_bio, certificate);
  PEM_write_bio_PrivateKey(key_bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {Text(certificate_bio), Text(key_bio)};
}

}  // namespace

Pem MakeCa(const std::string& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(name, key);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  return Finish(certificate, key, key);
}

Pem MakeCertificate(const Pem& ca, const std::string& common_name, const std::vector<std::string>& names) {
  BIO* bio = BIO_new_mem_buf(ca.certificate.data(), static_cast<int>(ca.certificate.size()));
  X509* issuer = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  bio = BIO_new_mem_buf(ca.key.data(), static_cast<int>(ca.key.size()));
  EVP_PKEY* signer = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  CHECK(issuer && signer);
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(common_name, key);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  std::string alternatives;
  for (const std::string& name : names) {
    const char* kind = ParseIp(name).ok() ? "IP:" : name.find('@') != std::string::npos ? "email:" : "DNS:";
    alternatives += (alternatives.empty() ? "" : ",") + std::string(kind) + name;
  }
  if (!alternatives.empty()) AddExtension(certificate, issuer, NID_subject_alt_name, alternatives);
  Pem pem = Finish(certificate, key, signer);
  EVP_PKEY_free(signer);
  X509_free(issuer);
  return pem;
}

}  // namespace gpulens::testing
