/* Why a handshake failed, for events: nothing in it comes from the other side. */
#include "proxy/tls_internal.h"

#include "base/cleanup.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>

struct word {
    long number;
    const char *text;
};

static const struct word verify_words[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, "certificate has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "certificate is not valid yet"},
    {X509_V_ERR_HOSTNAME_MISMATCH, "certificate is for another name"},
    {X509_V_ERR_IP_ADDRESS_MISMATCH, "certificate is for another address"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "certificate is self-signed"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "certificate is of an unknown authority"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "certificate is of an unknown authority"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "certificate is of an unknown authority"},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "certificate is of an unknown authority"},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE, "certificate has a wrong signature"},
    {X509_V_ERR_CERT_CHAIN_TOO_LONG, "certificate chain is too long"},
    {X509_V_ERR_INVALID_CA, "certificate is of one that is no authority"},
    {X509_V_ERR_PATH_LENGTH_EXCEEDED, "certificate chain is too long"},
    {X509_V_ERR_INVALID_PURPOSE, "certificate is for another purpose"},
    {X509_V_ERR_CERT_REVOKED, "certificate was revoked"},
    {X509_V_ERR_CA_KEY_TOO_SMALL, "certificate uses a weak key"},
    {X509_V_ERR_EE_KEY_TOO_SMALL, "certificate uses a weak key"},
    {X509_V_ERR_CA_MD_TOO_WEAK, "certificate uses a weak signature"},
};

static const struct word handshake_words[] = {
    {SSL_R_WRONG_VERSION_NUMBER, "the other side does not speak TLS"},
    {SSL_R_HTTP_REQUEST, "the other side does not speak TLS"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "no TLS version in common: 1.2 or later is needed"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "no TLS version in common: 1.2 or later is needed"},
    {SSL_R_VERSION_TOO_LOW, "no TLS version in common: 1.2 or later is needed"},
    {SSL_R_NO_SHARED_CIPHER, "no cipher in common"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, "no signature algorithm in common"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "no protocol in common: only HTTP/1.1 is spoken"},
    {SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "no protocol in common: only HTTP/1.1 is spoken"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, "the connection ended during the handshake"},
    {SSL_R_EXCESSIVE_MESSAGE_SIZE, "certificate chain is too long"},
    {SSL_R_DH_KEY_TOO_SMALL, "the other side uses a weak key"},
    {SSL_R_EE_KEY_TOO_SMALL, "the other side uses a weak key"},
};

/* What a program says that was not told of the authority of its run, or does not look there. */
static const struct word distrust_words[] = {
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "the program does not trust the run's authority"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "the program does not trust the run's authority"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "the program does not trust the run's authority"},
};

static const char *find(const struct word *words, size_t count, long number)
{
    for (size_t i = 0; i < count; i++)
        if (words[i].number == number)
            return words[i].text;
    return NULL;
}
#define FIND(words, number) find(words, ARRAY_LEN(words), number)

int tls_explain(SSL *ssl, bool server, bool ended, struct err *err)
{
    long verified = server ? X509_V_OK : SSL_get_verify_result(ssl);
    if (verified != X509_V_OK) {
        const char *text = FIND(verify_words, verified);
        return err_set(err, ERR_REFUSED, "%s", text ? text : "certificate is not valid");
    }
    int reason = ERR_GET_REASON(ERR_peek_error());
    const char *text = FIND(handshake_words, reason);
    if (!text && server)
        text = FIND(distrust_words, reason);
    if (!text && reason > SSL_AD_REASON_OFFSET)
        text = "the other side refused the handshake";
    if (!text && ended)
        text = "the connection ended during the handshake";
    return err_set(err, ERR_PROTOCOL, "%s", text ? text : "the TLS handshake failed");
}
