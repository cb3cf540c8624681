// Headlamp's frontend: its routes with the pages of objects, and its loader of plugins. The kit lacks the
// frame around them, with the menus.

// The modules refer to each other; this is the one to begin with.
import { setStore } from "@kinvolk/headlamp-plugin/lib/lib/router/createRouteURL";
import RouteSwitcher from "@kinvolk/headlamp-plugin/lib/components/App/RouteSwitcher";
import { darkTheme, lightTheme } from "@kinvolk/headlamp-plugin/lib/components/App/defaultAppThemes";
import { createMuiTheme } from "@kinvolk/headlamp-plugin/lib/lib/themes";
import Plugins from "@kinvolk/headlamp-plugin/lib/plugin/Plugins";
import { setConfig } from "@kinvolk/headlamp-plugin/lib/redux/configSlice";
import store from "@kinvolk/headlamp-plugin/lib/redux/stores/store";
import CssBaseline from "@mui/material/CssBaseline";
import { ThemeProvider } from "@mui/material/styles";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import i18next from "i18next";
import { SnackbarProvider } from "notistack";
import { createRoot } from "react-dom/client";
import { initReactI18next } from "react-i18next";
import { Provider } from "react-redux";
import { BrowserRouter } from "react-router-dom";

// The keys of translations are the texts in English.
void i18next.use(initReactI18next).init({
  lng: "en",
  nsSeparator: "|",
  keySeparator: false,
  react: { useSuspense: false },
});
setStore(store);
store.dispatch(setConfig({ clusters: { bed: { name: "bed", auth_type: "" } } }));
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
const theme = createMuiTheme(isDark ? darkTheme : lightTheme);

createRoot(document.getElementById("root")!).render(
  <Provider store={store}>
    <QueryClientProvider client={new QueryClient()}>
      <ThemeProvider theme={theme}>
        <CssBaseline />
        <SnackbarProvider>
          <BrowserRouter>
            <Plugins />
            <RouteSwitcher requiresToken={() => false} />
          </BrowserRouter>
        </SnackbarProvider>
      </ThemeProvider>
    </QueryClientProvider>
  </Provider>,
);
