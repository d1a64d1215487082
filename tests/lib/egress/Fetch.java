import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Fetches URLs and looks at no proxy variable. */
public class Fetch {
    public static void main(String[] urls) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (String url : urls) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url)).build();
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.print(response.statusCode() + " " + response.body());
        }
    }
}
